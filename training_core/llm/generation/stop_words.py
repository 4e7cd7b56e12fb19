"""Stop strings, found independent of token boundaries."""

from collections.abc import Sequence

from transformers import PreTrainedTokenizerBase, PreTrainedTokenizerFast

_BYTES = 4
"""A character has at most this many bytes, and a token at least one."""
_SPARE = 8
"""Additional tokens, because some have no text."""


def decode_texts(tokenizer: PreTrainedTokenizerBase, answers: Sequence[Sequence[int]]) -> list[str]:
    """Answers as text, without special tokens."""
    if isinstance(tokenizer, PreTrainedTokenizerFast) and not tokenizer.clean_up_tokenization_spaces:
        # Equivalent to batch_decode, without its tenfold cost per answer.
        texts: list[str] = tokenizer.backend_tokenizer.decode_batch(
            [list(answer) for answer in answers], skip_special_tokens=True
        )
        return texts
    return list(tokenizer.batch_decode([list(answer) for answer in answers], skip_special_tokens=True))


class StopWords:
    """The stop strings of one call. Special tokens are not text."""

    def __init__(self, tokenizer: PreTrainedTokenizerBase, texts: Sequence[str]) -> None:
        self._tokenizer = tokenizer
        self._texts = texts
        self.window = _BYTES * max(map(len, texts), default=0) + _SPARE if texts else 0
        """Number of last tokens that contain a just completed stop string; 0 without stop strings."""

    def ended(self, tails: Sequence[Sequence[int]]) -> list[bool]:
        """Whether each answer contains a stop string, by its last `window` tokens (or all of them)."""
        if not self._texts:
            return [False] * len(tails)
        return [any(text in tail for text in self._texts) for tail in decode_texts(self._tokenizer, tails)]

    def cut(self, text: str) -> str:
        """A whole answer's text up to its first stop string."""
        starts = [start for start in map(text.find, self._texts) if start >= 0]
        return text[: min(starts)] if starts else text
