"""What an engine is: prompts in, sampled answers out."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from training_core.types import Answer, Prompt

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class SamplingSettings:
    """The distribution that tokens are drawn from, and when to stop."""

    temperature: float = 1.0
    top_k: int = 0
    """0 disables."""
    top_p: float = 1.0
    """1 disables."""
    max_tokens: int = 8
    greedy: bool = False
    """Take the likeliest token; stored logprobs are then those of the tempered distribution."""


class Engine(Protocol):
    """Generates for one policy."""

    version: int
    """Of the weights it holds."""

    def generate(self, prompts: Sequence[Prompt], settings: SamplingSettings) -> list[list[Answer]]:
        """`count` answers per prompt, in order. Raises EngineFailure."""
        ...

    def load_weights(self, state: "Mapping[str, Tensor]", version: int) -> None:
        """Take new weights as `version`."""
        ...
