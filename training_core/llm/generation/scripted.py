"""An engine that says what a function tells it to: for tests of play, and for baselines written by hand."""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from transformers import PreTrainedTokenizerBase

from training_core.llm.generation.base import SamplingSettings
from training_core.types import Answer, Prompt

if TYPE_CHECKING:
    from torch import Tensor

Script = Callable[[str, Prompt, int], str]
"""(prompt as text, prompt, index of the candidate) -> what is said."""


class ScriptedEngine:
    """An Engine without a model. Every token has probability 1."""

    def __init__(self, tokenizer: PreTrainedTokenizerBase, script: Script, version: int = 0) -> None:
        self.tokenizer = tokenizer
        self.script = script
        self.version = version

    def generate(self, prompts: Sequence[Prompt], settings: SamplingSettings) -> list[list[Answer]]:
        """`count` answers per prompt, cut after settings.max_tokens tokens."""
        return [self._answers(prompt, settings.max_tokens) for prompt in prompts]

    def load_weights(self, state: "Mapping[str, Tensor]", version: int) -> None:
        """There are none: only the version changes."""
        self.version = version

    def _answers(self, prompt: Prompt, max_tokens: int) -> list[Answer]:
        seen = str(self.tokenizer.decode(prompt.token_ids))
        return [self._answer(self.script(seen, prompt, index), max_tokens) for index in range(prompt.count)]

    def _answer(self, said: str, max_tokens: int) -> Answer:
        ids = [*self.tokenizer(said, add_special_tokens=False)["input_ids"], int(self.tokenizer.eos_token_id)]
        kept = ids[:max_tokens]
        return Answer(
            token_ids=kept,
            logprobs=[0.0] * len(kept),
            versions=[self.version] * len(kept),
            stop_reason="stop" if len(kept) == len(ids) else "length",
            text=str(self.tokenizer.decode(kept, skip_special_tokens=True)),
        )
