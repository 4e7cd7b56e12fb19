"""Reward functions by `type`."""

from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from training_core.config.base import Arguments, Section
from training_core.config.effects import Effects, unless
from training_core.importing import IMPORT_PATH


class RewardSection(Section):
    """What every reward function declares."""

    type: str
    """The function that scores an answer."""

    @property
    def compares(self) -> str:
        """Name of the field by which the reward of an answer depends on the other answers of its group; empty if it does not."""
        return ""

    @property
    def calls_at_a_time(self) -> int:
        """Calls that one environment worker makes at the same time."""
        return 1


class RewardFunction(RewardSection):
    """How a reward function runs: in separate processes, which are terminated after a timeout."""

    timeout: float = Field(15.0, gt=0.0)
    """Time limit of one call in seconds: then its process is killed, the answer gets 0, and `rewards/timeouts` counts it."""
    retries: int = Field(3, ge=0, le=100)
    """Retries when the function raises or its process dies; after the last one the episode fails with the reason."""
    processes: int = Field(2, ge=1, le=256)
    """Processes that run the function, per environment worker; started when first needed."""
    memory_mib: int = Field(0, ge=0)
    """Address space of each of these processes, in MiB; 0: no limit."""

    @property
    def calls_at_a_time(self) -> int:
        """Calls that one environment worker makes at the same time."""
        return self.processes


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
    scores: Literal["answer", "group"] = "answer"
    """What a call scores: one answer; or all answers of a group: completions and completion_ids are lists, and so is the result."""

    @property
    def compares(self) -> str:
        """`scores` if the function scores a whole group."""
        return "scores" if self.scores == "group" else ""


class JudgeReward(RewardSection):
    """Verdicts of a model behind an OpenAI-compatible address, from 0 to 1."""

    import_fields: ClassVar[tuple[str, ...]] = ("rule",)
    model_name_fields: ClassVar[tuple[str, ...]] = ("model",)
    key_fields: ClassVar[Mapping[str, str]] = {"key_variable": "url"}
    address_fields: ClassVar[tuple[str, ...]] = ("url",)
    effects: ClassVar[Effects] = {"both_orders": unless("method", "rubric")}
    type: Literal["judge"] = "judge"
    """A model grades the answers, or compares those of a group."""
    method: Literal["rubric", "pairwise", "ranking"] = "rubric"
    """rubric grades one answer; pairwise compares every two answers of a group; ranking orders the whole group in one request."""
    rubric: str = Field("The answer is correct, complete and follows the instructions.", min_length=1)
    """What a good answer is; a field `rubric` of a line replaces it."""
    highest: int = Field(10, ge=1, le=1000)
    """Highest grade of the rubric; the reward is the grade divided by it. It also grades single answers, as in evaluations."""
    reference: bool = True
    """Whether the judge sees the label of a line, as a correct answer."""
    both_orders: bool = True
    """Whether every comparison is made in both orders and averaged, which removes position bias and doubles the requests."""
    url: str = Field("http://127.0.0.1:8000/v1", pattern=r"^https?://[^\s?#]+$")
    """Base URL of the API, with its version."""
    model: str = Field(min_length=1)
    """Name of the model at the server."""
    key_variable: str = Field("", pattern=r"^([A-Z0-9_]+_API_KEY)?$")
    """Name of the worker's environment variable that holds the API key, ending in _API_KEY; empty for none."""
    request: Arguments = {"temperature": 0.0, "max_tokens": 1024}
    """Further fields of every request, such as reasoning_effort."""
    timeout: float = Field(120.0, gt=0.0)
    """Time limit of one request in seconds."""
    retries: int = Field(3, ge=0, le=20)
    """Retries of a request, with growing waits, and of an answer without a verdict; after the last one the episode fails."""
    concurrency: int = Field(16, ge=1, le=1024)
    """Requests at the same time, per environment worker."""
    cache: int = Field(65_536, ge=0)
    """Verdicts that an environment worker retains in memory, by content: the same request is made once. 0 disables."""
    prompt_price: float = Field(0.0, ge=0.0)
    """Price of a million prompt tokens, for `judge/cost`."""
    completion_price: float = Field(0.0, ge=0.0)
    """Price of a million generated tokens, for `judge/cost`."""
    rule: str = Field("", pattern=f"^$|{IMPORT_PATH}")
    """Import path of a reward function with which the judge is compared (`judge/agreement`), without effect on rewards; empty for none."""

    @property
    def compares(self) -> str:
        """`method` if answers are compared with each other."""
        return "method" if self.method != "rubric" else ""

    @property
    def calls_at_a_time(self) -> int:
        """Requests that one environment worker makes at the same time."""
        return self.concurrency


Reward = Annotated[MathReward | CustomReward | JudgeReward, Field(discriminator="type")]
"""One class per reward function, selected by `type`."""

REWARD_CONFIGS: dict[str, type[RewardSection]] = {
    "math": MathReward,
    "custom": CustomReward,
    "judge": JudgeReward,
}
