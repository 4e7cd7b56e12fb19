"""Reward functions by `type`."""

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from training_core.config.base import Arguments, Section
from training_core.importing import IMPORT_PATH


class RewardFunction(Section):
    """How a reward function runs: in separate processes, which are terminated after a timeout."""

    type: str
    """The function that scores an answer."""
    timeout: float = Field(15.0, gt=0.0)
    """Time limit of one call in seconds: then its process is killed, the answer gets 0, and `rewards/timeouts` counts it."""
    retries: int = Field(3, ge=0, le=100)
    """Retries when the function raises or its process dies; after the last one the episode fails with the reason."""
    processes: int = Field(2, ge=1, le=256)
    """Processes that run the function, per environment worker; started when first needed."""
    memory_mib: int = Field(0, ge=0)
    """Address space of each of these processes, in MiB; 0: no limit."""


class MathReward(RewardFunction):
    """1 for an answer that is mathematically equal to the label, else 0."""

    type: Literal["math"] = "math"
    """Rule-based: the answer in a box or behind ####, compared exactly, then by math-verify."""
    memory_mib: int = Field(2048, ge=0)
    """Address space of each of these processes, in MiB; 0: no limit. Algebra on a hostile answer can request any amount."""
    strict: bool = False
    """Whether only a box or #### is accepted; otherwise also "the answer is ..." and the last number."""


class CustomReward(RewardFunction):
    """A custom function."""

    import_fields: ClassVar[tuple[str, ...]] = ("path",)
    type: Literal["custom"] = "custom"
    """reward_fn(prompt, completions, prompt_ids, completion_ids, **data), sync or async, by import path."""
    path: str = Field(pattern=IMPORT_PATH)
    """Import path package.module:name of a function, or of a class with callable instances."""
    args: Arguments = {}
    """Additional keyword arguments of the function, or arguments that the class is constructed with."""


Reward = Annotated[MathReward | CustomReward, Field(discriminator="type")]
"""One class per reward function, selected by `type`."""

REWARD_CONFIGS: dict[str, type[RewardFunction]] = {"math": MathReward, "custom": CustomReward}
