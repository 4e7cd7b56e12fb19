"""What an engine is: prompts in, sampled answers out."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from training_core.config.team import Sampling
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
    stop: tuple[str, ...] = ()
    """Texts that end an answer. The token that completes one is the answer's last; the answer's text ends before it."""


def settings_of(sampling: Sampling) -> SamplingSettings:
    """How a role's tokens are drawn in training."""
    return SamplingSettings(
        sampling.temperature, sampling.top_k, sampling.top_p, sampling.max_tokens, stop=sampling.stop
    )


Generate = Callable[[Sequence[Prompt], SamplingSettings], list[list[Answer]]]
"""An engine's generate, wherever the engine is."""

Interrupted = Callable[[], bool]
"""Asked between two tokens: whether to leave off."""


class Engine(Protocol):
    """Generates for one policy."""

    version: int
    """Of the weights it holds."""

    def generate(
        self, prompts: Sequence[Prompt], settings: SamplingSettings, interrupted: Interrupted | None = None
    ) -> list[list[Answer]]:
        """`count` answers per prompt, in order. Raises EngineFailure.

        Once `interrupted` is true, answers that have not ended are returned as far as they are, with the stop reason
        "interrupt" and perhaps no token at all; `resuming.py` says how they go on.
        """
        ...

    def load_weights(self, state: "Mapping[str, Tensor]", version: int) -> None:
        """Take new weights as `version`."""
        ...
