"""The interface of engines: prompts in, sampled answers out."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from training_core.config.team import Sampling
from training_core.types import Answer, Prompt

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class SamplingSettings:
    """The sampling distribution and the stop conditions."""

    temperature: float = 1.0
    top_k: int = 0
    """0 disables."""
    top_p: float = 1.0
    """1 disables."""
    max_tokens: int = 8
    greedy: bool = False
    """Select the most likely token; stored logprobs are then those of the tempered distribution."""
    stop: tuple[str, ...] = ()
    """Strings that end an answer. The token that completes one is the answer's last; the answer's text ends before the string."""


def settings_of(sampling: Sampling) -> SamplingSettings:
    """Sampling settings of a role in training."""
    return SamplingSettings(
        sampling.temperature, sampling.top_k, sampling.top_p, sampling.max_tokens, stop=sampling.stop
    )


Generate = Callable[[Sequence[Prompt], SamplingSettings], list[list[Answer]]]
"""An engine's generate, local or remote."""

Interrupted = Callable[[], bool]
"""Called between two tokens: whether to interrupt generation."""


class Engine(Protocol):
    """Generates for one policy."""

    version: int
    """Version of the engine's weights."""

    def generate(
        self, prompts: Sequence[Prompt], settings: SamplingSettings, interrupted: Interrupted | None = None
    ) -> list[list[Answer]]:
        """`count` answers per prompt, in order. Raises EngineFailure.

        Once `interrupted` returns True, unfinished answers are returned with the stop reason "interrupt" and possibly
        no token; `continuation.py` continues them.
        """
        ...

    def load_weights(self, state: "Mapping[str, Tensor]", version: int) -> None:
        """Load new weights as `version`."""
        ...


class SleepingEngine(Engine, Protocol):
    """An engine with its own copy of the weights, which can release its device memory while it does not generate."""

    def sleep(self) -> None:
        """Release the device's memory: move the weights to the host, discard the KV cache."""
        ...

    def wake_up(self) -> None:
        """Undo `sleep`. The engine has the weights that it had before."""
        ...
