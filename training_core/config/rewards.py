"""Reward functions by `type`."""

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from training_core.config.base import Arguments, Section
from training_core.importing import IMPORT_PATH


class RewardFunction(Section):
    """How a reward function is run: in processes of its own, which are ended when they take too long."""

    type: str
    """Which function judges an answer."""
    timeout: float = Field(15.0, gt=0.0)
    """Seconds until a judgement is given up: its process is ended, the answer earns 0, `rewards/timeouts` counts it."""
    retries: int = Field(3, ge=0, le=100)
    """Further tries when the function raises or its process dies; after the last one the episode fails and says why."""
    processes: int = Field(2, ge=1, le=256)
    """Processes that judge, per environment worker; started when first needed."""
    memory_mib: int = Field(0, ge=0)
    """Address space of each of these processes, in MiB; 0: no limit."""


class MathReward(RewardFunction):
    """1 for an answer that is mathematically equal to the label, else 0."""

    type: Literal["math"] = "math"
    """Rule-based: the answer in a box or behind ####, compared exactly, then by math-verify."""
    memory_mib: int = Field(2048, ge=0)
    """Address space of each of these processes, in MiB; 0: no limit. Algebra on a hostile answer may ask for any amount."""
    strict: bool = False
    """Whether only a box or #### counts; otherwise also "the answer is ..." and the last number."""


class CustomReward(RewardFunction):
    """A function of your own."""

    import_fields: ClassVar[tuple[str, ...]] = ("path",)
    type: Literal["custom"] = "custom"
    """reward_fn(prompt, completions, prompt_ids, completion_ids, **data), sync or async, by import path."""
    path: str = Field(pattern=IMPORT_PATH)
    """Where it is: package.module:name of a function, or of a class whose objects can be called."""
    args: Arguments = {}
    """Further keyword arguments of the function, or those that the class is made with."""


Reward = Annotated[MathReward | CustomReward, Field(discriminator="type")]
"""One class per reward function, told apart by `type`."""

REWARD_CONFIGS: dict[str, type[RewardFunction]] = {"math": MathReward, "custom": CustomReward}
