"""An engine whose answers come from a function: for tests of play, and for scripted baselines."""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from transformers import PreTrainedTokenizerBase

from training_core.llm.generation.base import Interrupted, SamplingSettings
from training_core.llm.generation.stop_words import StopWords
from training_core.types import Answer, Prompt

if TYPE_CHECKING:
    from torch import Tensor

Script = Callable[[str, Prompt, int], str]
"""(prompt as text, prompt, index of the candidate) -> the answer's text."""


class ScriptedEngine:
    """An Engine without a model. Every token has probability 1."""

    def __init__(self, tokenizer: PreTrainedTokenizerBase, script: Script, version: int = 0) -> None:
        self.tokenizer = tokenizer
        self.script = script
        self.version = version

    def generate(
        self, prompts: Sequence[Prompt], settings: SamplingSettings, interrupted: Interrupted | None = None
    ) -> list[list[Answer]]:
        """`count` answers per prompt, truncated after settings.max_tokens tokens. They are never interrupted."""
        words = StopWords(self.tokenizer, settings.stop)
        return [self._answers(prompt, settings.max_tokens, words) for prompt in prompts]

    def load_weights(self, state: "Mapping[str, Tensor]", version: int) -> None:
        """There are no weights: only the version changes."""
        self.version = version

    def _answers(self, prompt: Prompt, max_tokens: int, words: StopWords) -> list[Answer]:
        prompt_text = str(self.tokenizer.decode(prompt.token_ids))
        indices = range(prompt.first, prompt.first + prompt.count)
        texts = [self.script(prompt_text, prompt, index) for index in indices]
        return [self._answer(text, prompt.offset, max_tokens, words) for text in texts]

    def _answer(self, text: str, offset: int, max_tokens: int, words: StopWords) -> Answer:
        ids = [*self.tokenizer(text, add_special_tokens=False)["input_ids"], int(self.tokenizer.eos_token_id)]
        ends = (length for length in range(1, len(ids)) if words.ended([ids[:length]])[0])
        whole = ids[: next(ends, len(ids))]
        truncated = whole[:max_tokens]
        new = len(truncated) - offset
        return Answer(
            token_ids=truncated[offset:],
            logprobs=[0.0] * new,
            versions=[self.version] * new,
            stop_reason="stop" if len(truncated) == len(whole) else "length",
            text=words.answer_texts([truncated])[0],
        )
