"""The text of an answer: its end token is stripped, and its stop strings are found independent of token boundaries."""

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # processes that play without a model import no transformers
    from transformers import PreTrainedTokenizerBase

_BYTES = 4
"""A character has at most this many bytes, and a token at least one."""
_SPARE = 8
"""Additional tokens, because some have no text."""


def end_tokens(tokenizer: "PreTrainedTokenizerBase", model: Any = None) -> list[int]:
    """The ids that end an answer, sorted: the tokenizer's end-of-text token, and those of the model's generation config."""
    named: Any = getattr(getattr(model, "generation_config", None), "eos_token_id", None)
    more = named if isinstance(named, list) else [named]
    return sorted({int(token) for token in (tokenizer.eos_token_id, *more) if token is not None})


def decode_texts(
    tokenizer: "PreTrainedTokenizerBase", answers: Sequence[Sequence[int]], ends: Collection[int] = ()
) -> list[str]:
    """Answers as text. Padding, the end-of-text token and the tokens in `ends` are stripped from their end.

    Other special tokens are part of the text: they mark thoughts ([THINK]) and tool calls ([TOOL_CALLS]).
    """
    stripped = {tokenizer.pad_token_id, tokenizer.eos_token_id, *ends}
    bodies = [_without_trailing(answer, stripped) for answer in answers]
    if tokenizer.is_fast and not tokenizer.clean_up_tokenization_spaces:
        # Equivalent to batch_decode, without its tenfold cost per answer.
        texts: list[str] = tokenizer.backend_tokenizer.decode_batch(bodies, skip_special_tokens=False)
        return texts
    return list(tokenizer.batch_decode(bodies, skip_special_tokens=False))


def _without_trailing(answer: Sequence[int], stripped: Collection[int | None]) -> list[int]:
    end = len(answer)
    while end and answer[end - 1] in stripped:
        end -= 1
    return list(answer[:end])


class StopWords:
    """The stop strings of one call. They may contain special tokens; `ends` are the tokens that end an answer."""

    def __init__(
        self, tokenizer: "PreTrainedTokenizerBase", texts: Sequence[str], ends: Collection[int] = ()
    ) -> None:
        self._tokenizer = tokenizer
        self._texts = texts
        self._ends = ends
        self.window = _BYTES * max(map(len, texts), default=0) + _SPARE if texts else 0
        """Number of last tokens that contain a just completed stop string; 0 without stop strings."""

    def ended(self, tails: Sequence[Sequence[int]]) -> list[bool]:
        """Whether each answer contains a stop string, by its last `window` tokens (or all of them)."""
        if not self._texts:
            return [False] * len(tails)
        decoded = decode_texts(self._tokenizer, tails, self._ends)
        return [any(text in tail for text in self._texts) for tail in decoded]

    def answer_texts(self, answers: Sequence[Sequence[int]]) -> list[str]:
        """Whole answers as texts, each up to its first stop string."""
        return [self.cut(text) for text in decode_texts(self._tokenizer, answers, self._ends)]

    def cut(self, text: str) -> str:
        """A whole answer's text up to its first stop string."""
        starts = [start for start in map(text.find, self._texts) if start >= 0]
        return text[: min(starts)] if starts else text
