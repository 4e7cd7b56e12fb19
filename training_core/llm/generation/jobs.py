"""What an engine has to say in one call: candidates, their noise and what they have said so far.

C candidates. Pure bookkeeping on numpy arrays: no model, no tensors.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, repeat

import numpy as np
from numpy.typing import NDArray

from training_core.llm.generation.kept import Kept, Name
from training_core.llm.generation.stop_words import StopWords
from training_core.seeding import Words, fold, key_states, uniforms
from training_core.types import Prompt, StopReason

Ints = NDArray[np.int64]
_TREE = 256
"""Tokens said after a prompt that may always be in one tree: who attends to one tree looks at all of it."""
_TREE_ANSWERS = 8
"""Answers that may always be."""
_WIDTH = 64
"""Tokens an answer has room for at first."""


@dataclass(frozen=True)
class Plot:
    """Candidates whose prompts are one text."""

    text: tuple[int, ...]
    candidates: Ints
    """By their number in the call."""
    known: Kept | None = None
    """What was kept of the text's beginning, by a conversation that goes on."""


def make_plots(prompts: Sequence[Prompt], limit: int, max_tokens: int, *, shared: bool) -> list[Plot]:
    """All candidates of a call in plots of at most `limit`, by length of the prompt; one a plot where nothing is shared.

    A tree of very many tokens is split: what is saved on the prompt would be lost on the others' tokens.
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
        """Of each candidate (C)."""
        self.names: list[Name] = [
            (prompt.rid, prompt.first + place) for prompt in prompts for place in range(prompt.count)
        ]
        """Of each candidate's conversation (C); without a request id it is kept nowhere."""
        self.states: Words = fold(np.repeat(keys, counts), indices)
        """Hash state of each candidate's noise key (C,)."""
        self.offsets = np.repeat([prompt.offset for prompt in prompts], counts)
        """Tokens that each had said before (C,): the first columns of `tokens`."""
        self.tokens = np.zeros(
            (len(indices), min(max_tokens, int(self.offsets.max()) + _WIDTH)), dtype=np.int64
        )
        for row in np.flatnonzero(self.offsets):
            prompt = prompts[np.searchsorted(np.cumsum(counts), row, side="right")]
            self.tokens[row, : prompt.offset] = prompt.token_ids[-prompt.offset :]
        self.logprobs = np.zeros(self.tokens.shape, dtype=np.float64)
        self.lengths = self.offsets.copy()
        self.reasons: list[StopReason] = ["interrupt"] * len(indices)
        """Why each fell silent; those that have not would be interrupted."""
        self.live: Ints = np.zeros(0, dtype=np.int64)
        """Those that speak, in the order in which they began."""

    def begin(self, numbers: Ints) -> None:
        """Let these speak, too."""
        self.live = np.concatenate([self.live, numbers])

    def uniforms(self) -> NDArray[np.float64]:
        """A number in [0, 1) for each live candidate's next token."""
        return uniforms(fold(self.states[self.live], self.lengths[self.live]))

    def say(
        self, tokens: Ints, logprobs: NDArray[np.float64], stops: Ints, words: StopWords
    ) -> NDArray[np.bool_]:
        """Note the live candidates' next tokens. Returns who goes on: not those that stop or have said all they may."""
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
        """A candidate's prompt and all it has said."""
        prompt = self.prompts[number].token_ids
        said: list[int] = self.tokens[number, self.offsets[number] : self.lengths[number]].tolist()
        return prompt + said

    def said(self) -> Iterator[tuple[list[int], list[float], int, StopReason]]:
        """Of each candidate: all its tokens, their log-probabilities, how many it had said before, and why it ended."""
        rows = zip(
            self.tokens.tolist(), self.logprobs.tolist(), self.lengths.tolist(), self.offsets.tolist(), self.reasons,
            strict=True,
        )  # fmt: skip
        return (
            (tokens[:length], logprobs[:length], offset, reason)
            for tokens, logprobs, length, offset, reason in rows
        )
