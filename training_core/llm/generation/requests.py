"""The candidates of one engine call, with their noise and their tokens so far.

C candidates. Pure bookkeeping on numpy arrays: no model, no tensors.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, repeat

import numpy as np
from numpy.typing import NDArray

from training_core.llm.generation.prefix_cache import Kept, Name
from training_core.llm.generation.stop_words import StopWords
from training_core.seeding import Words, fold, key_states, uniforms
from training_core.types import Prompt, StopReason

Ints = NDArray[np.int64]
_TREE = 256
"""Generated tokens that one tree may always contain; attention reads the whole tree."""
_TREE_ANSWERS = 8
"""Answers that one tree may always contain."""
_WIDTH = 64
"""Initial capacity of an answer in tokens."""


@dataclass(frozen=True)
class Plot:
    """Candidates with the same prompt."""

    text: tuple[int, ...]
    candidates: Ints
    """Indices of the candidates in the call."""
    known: Kept | None = None
    """Cached prefix of the text, from a conversation that continues."""


def make_plots(prompts: Sequence[Prompt], limit: int, max_tokens: int, *, shared: bool) -> list[Plot]:
    """All candidates of a call in plots of at most `limit`, sorted by prompt length; one per plot if nothing is
    shared.

    A tree with very many tokens is split, because attention over the others' tokens would cost more than sharing the
    prompt saves.
    """
    texts: dict[tuple[int, ...], list[int]] = {}
    number = 0
    for prompt in prompts:
        texts.setdefault(tuple(prompt.token_ids), []).extend(range(number, number + prompt.count))
        number += prompt.count
    plots: list[Plot] = []
    for text, everyone in texts.items():
        answers = max(_TREE, 2 * len(text)) // max_tokens
        most = min(max(answers, _TREE_ANSWERS), limit) if shared else 1
        parts = (everyone[first : first + most] for first in range(0, len(everyone), most))
        plots.extend(Plot(text, np.asarray(part)) for part in parts)
    return sorted(plots, key=lambda plot: len(plot.text))


class Candidates:
    """The candidates of a call, prompt by prompt."""

    def __init__(self, prompts: Sequence[Prompt], max_tokens: int) -> None:
        counts = [prompt.count for prompt in prompts]
        keys = key_states(np.asarray([prompt.key for prompt in prompts], dtype=np.int64))
        indices = np.concatenate([prompt.first + np.arange(prompt.count) for prompt in prompts])
        self._max_tokens = max_tokens
        self.prompts = list(chain.from_iterable(repeat(prompt, prompt.count) for prompt in prompts))
        """Prompt of each candidate (C)."""
        self.names: list[Name] = [
            (prompt.rid, prompt.first + place) for prompt in prompts for place in range(prompt.count)
        ]
        """Name of each candidate's conversation (C); without a request id it is not cached."""
        self.states: Words = fold(np.repeat(keys, counts), indices)
        """Hash state of each candidate's noise key (C,)."""
        self.offsets = np.repeat([prompt.offset for prompt in prompts], counts)
        """Number of tokens that each had generated before (C,): the first columns of `tokens`."""
        self.tokens = np.zeros(
            (len(indices), min(max_tokens, int(self.offsets.max()) + _WIDTH)), dtype=np.int64
        )
        for row in np.flatnonzero(self.offsets):
            prompt = prompts[np.searchsorted(np.cumsum(counts), row, side="right")]
            self.tokens[row, : prompt.offset] = prompt.token_ids[-prompt.offset :]
        self.logprobs = np.zeros(self.tokens.shape, dtype=np.float64)
        self.lengths = self.offsets.copy()
        self.reasons: list[StopReason] = ["interrupt"] * len(indices)
        """Stop reason of each; unfinished ones have "interrupt"."""
        self.live: Ints = np.zeros(0, dtype=np.int64)
        """Active candidates, in the order of their start."""

    def begin(self, numbers: Ints) -> None:
        """Activate these candidates as well."""
        self.live = np.concatenate([self.live, numbers])

    def uniforms(self) -> NDArray[np.float64]:
        """A number in [0, 1) for each live candidate's next token."""
        return uniforms(fold(self.states[self.live], self.lengths[self.live]))

    def say(
        self, tokens: Ints, logprobs: NDArray[np.float64], stops: Ints, words: StopWords
    ) -> NDArray[np.bool_]:
        """Record the live candidates' next tokens. Returns which continue: those without a stop and below max_tokens."""
        spots = self.lengths[self.live]
        if spots.max() == self.tokens.shape[1]:
            more = ((0, 0), (0, min(self.tokens.shape[1], self._max_tokens - self.tokens.shape[1])))
            self.tokens, self.logprobs = np.pad(self.tokens, more), np.pad(self.logprobs, more)
        self.tokens[self.live, spots] = tokens
        self.logprobs[self.live, spots] = logprobs
        self.lengths[self.live] += 1
        stopped: NDArray[np.bool_] = (tokens[:, None] == stops).any(axis=1)  # few stops: np.isin costs more
        if words.window:
            stopped |= words.ended(self._tails(words.window))
        on: NDArray[np.bool_] = ~stopped & (self.lengths[self.live] < self._max_tokens)
        for place in np.flatnonzero(~on):
            self.reasons[self.live[place]] = "stop" if stopped[place] else "length"
        self.live = self.live[on]
        return on

    def _tails(self, window: int) -> list[list[int]]:
        spans = zip(self.live, self.lengths[self.live], strict=True)
        return [self.tokens[row, max(end - window, 0) : end].tolist() for row, end in spans]

    def text(self, number: int) -> list[int]:
        """A candidate's prompt and all its tokens."""
        prompt = self.prompts[number].token_ids
        said: list[int] = self.tokens[number, self.offsets[number] : self.lengths[number]].tolist()
        return prompt + said

    def said(self) -> Iterator[tuple[list[int], list[float], int, StopReason]]:
        """For each candidate: all its tokens, their log-probabilities, the number generated before, and the stop reason."""
        rows = zip(
            self.tokens.tolist(), self.logprobs.tolist(), self.lengths.tolist(), self.offsets.tolist(), self.reasons,
            strict=True,
        )  # fmt: skip
        return (
            (tokens[:length], logprobs[:length], offset, reason)
            for tokens, logprobs, length, offset, reason in rows
        )
