"""Texts that end an answer, found in what has been said wherever token borders fall."""

from collections.abc import Sequence

from transformers import PreTrainedTokenizerBase, PreTrainedTokenizerFast

_BYTES = 4
"""A character is at most this many bytes, and a token at least one."""
_SPARE = 8
"""Tokens beyond that: some stand for no text."""


def texts_of(tokenizer: PreTrainedTokenizerBase, answers: Sequence[Sequence[int]]) -> list[str]:
    """Answers as text, special tokens left out."""
    if isinstance(tokenizer, PreTrainedTokenizerFast) and not tokenizer.clean_up_tokenization_spaces:
        # What batch_decode comes to, without its tenfold cost per answer.
        found: list[str] = tokenizer.backend_tokenizer.decode_batch(
            [list(answer) for answer in answers], skip_special_tokens=True
        )
        return found
    return list(tokenizer.batch_decode([list(answer) for answer in answers], skip_special_tokens=True))


class StopWords:
    """The stop texts of one call. Special tokens are no text."""

    def __init__(self, tokenizer: PreTrainedTokenizerBase, texts: Sequence[str]) -> None:
        self._tokenizer = tokenizer
        self._texts = texts
        self.window = _BYTES * max(map(len, texts), default=0) + _SPARE if texts else 0
        """Tokens at an answer's end that a stop text just completed lies within; 0 where there are no stop texts."""

    def ended(self, tails: Sequence[Sequence[int]]) -> list[bool]:
        """Whether each answer has said a stop text, by its last `window` tokens (or all of them)."""
        if not self._texts:
            return [False] * len(tails)
        return [any(text in heard for text in self._texts) for heard in texts_of(self._tokenizer, tails)]

    def cut(self, text: str) -> str:
        """A whole answer's text up to the first stop text in it."""
        found = [place for place in map(text.find, self._texts) if place >= 0]
        return text[: min(found)] if found else text
