"""The candidates of one engine call, with their noise and their tokens so far.

C candidates. Pure bookkeeping on numpy arrays: no model, no tensors.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, repeat

import numpy as np
from numpy.typing import NDArray

from training_core.llm.generation.prefix_cache import CachedPrefix, ConversationName
from training_core.llm.generation.stop_words import StopWords
from training_core.seeding import Words, fold, key_states, uniforms
from training_core.types import Prompt, StopReason

Ints = NDArray[np.int64]
_MIN_TREE_TOKENS = 256
"""Generated tokens that one tree may always contain; attention reads the whole tree."""
_MIN_TREE_ANSWERS = 8
"""Answers that one tree may always contain."""
_INITIAL_WIDTH = 64
"""Initial capacity of an answer in tokens."""


@dataclass(frozen=True)
class PromptGroup:
    """Candidates with the same prompt."""

    text: tuple[int, ...]
    candidates: Ints
    """Indices of the candidates in the call."""
    cached_prefix: CachedPrefix | None = None
    """Cached prefix of the text, from a conversation that continues."""


def make_prompt_groups(
    prompts: Sequence[Prompt], limit: int, max_tokens: int, *, shared: bool
) -> list[PromptGroup]:
    """All candidates of a call in groups of at most `limit`, sorted by prompt length; one per group if nothing is
    shared.

    A tree with very many tokens is split, because attention over the others' tokens would cost more than sharing the
    prompt saves.
    """
    texts: dict[tuple[tuple[int, ...], str], list[int]] = {}
    number = 0
    for prompt in prompts:
        name = tuple(prompt.token_ids), prompt.grammar  # candidates of one group may share nodes
        texts.setdefault(name, []).extend(range(number, number + prompt.count))
        number += prompt.count
    groups: list[PromptGroup] = []
    for (text, _), numbers in texts.items():
        answers = max(_MIN_TREE_TOKENS, 2 * len(text)) // max_tokens
        most = min(max(answers, _MIN_TREE_ANSWERS), limit) if shared else 1
        parts = (numbers[first : first + most] for first in range(0, len(numbers), most))
        groups.extend(PromptGroup(text, np.asarray(part)) for part in parts)
    return sorted(groups, key=lambda group: len(group.text))


class Candidates:
    """The candidates of a call, prompt by prompt."""

    def __init__(self, prompts: Sequence[Prompt], limits: Sequence[int]) -> None:
        """`limits`: maximum length of each prompt's answers in tokens, those before a continuation included."""
        counts = [prompt.count for prompt in prompts]
        keys = key_states(np.asarray([prompt.key for prompt in prompts], dtype=np.int64))
        indices = np.concatenate([prompt.first + np.arange(prompt.count) for prompt in prompts])
        self._limits = np.repeat(limits, counts)
        """Maximum number of tokens of each candidate (C,)."""
        self.prompts = list(chain.from_iterable(repeat(prompt, prompt.count) for prompt in prompts))
        """Prompt of each candidate (C)."""
        self.names: list[ConversationName] = [
            (prompt.rid, prompt.first + index) for prompt in prompts for index in range(prompt.count)
        ]
        """Name of each candidate's conversation (C); without a request id it is not cached."""
        self.noise_states: Words = fold(np.repeat(keys, counts), indices)
        """Hash state of each candidate's noise key (C,)."""
        self.offsets = np.repeat([prompt.offset for prompt in prompts], counts)
        """Number of tokens that each had generated before (C,): the first columns of `tokens`."""
        width = min(max(limits), int(self.offsets.max()) + _INITIAL_WIDTH)
        self.tokens = np.zeros((len(indices), width), dtype=np.int64)
        for row in np.flatnonzero(self.offsets):
            prompt = prompts[np.searchsorted(np.cumsum(counts), row, side="right")]
            self.tokens[row, : prompt.offset] = prompt.token_ids[-prompt.offset :]
        self.logprobs = np.zeros(self.tokens.shape, dtype=np.float64)
        self.lengths = self.offsets.copy()
        self.reasons: list[StopReason] = ["interrupt"] * len(indices)
        """Stop reason of each; unfinished ones have "interrupt"."""
        self.active: Ints = np.zeros(0, dtype=np.int64)
        """Active candidates, in the order of their start."""

    def activate(self, numbers: Ints) -> None:
        """Activate these candidates as well."""
        self.active = np.concatenate([self.active, numbers])

    def uniforms(self) -> NDArray[np.float64]:
        """A number in [0, 1) for each live candidate's next token."""
        return uniforms(fold(self.noise_states[self.active], self.lengths[self.active]))

    def may_continue(self) -> NDArray[np.bool_]:
        """Which live candidates are below their limit with one more token."""
        result: NDArray[np.bool_] = self.lengths[self.active] + 1 < self._limits[self.active]
        return result

    def most_tokens(self, numbers: Ints) -> int:
        """Maximum number of tokens that these candidates generate in all."""
        return int((self._limits[numbers] - self.offsets[numbers]).sum())

    def append_tokens(
        self, tokens: Ints, logprobs: NDArray[np.float64], stops: Ints, words: StopWords
    ) -> NDArray[np.bool_]:
        """Record the live candidates' next tokens. Returns which continue: those without a stop and below their limit."""
        columns = self.lengths[self.active]
        if columns.max() == self.tokens.shape[1]:
            more = ((0, 0), (0, min(self.tokens.shape[1], self._limits.max() - self.tokens.shape[1])))
            self.tokens, self.logprobs = np.pad(self.tokens, more), np.pad(self.logprobs, more)
        self.tokens[self.active, columns] = tokens
        self.logprobs[self.active, columns] = logprobs
        self.lengths[self.active] += 1
        stopped: NDArray[np.bool_] = (tokens[:, None] == stops).any(axis=1)  # few stops: np.isin costs more
        if words.window:
            stopped |= words.ended(self._tails(words.window))
        continuing: NDArray[np.bool_] = ~stopped & (self.lengths[self.active] < self._limits[self.active])
        for index in np.flatnonzero(~continuing):
            self.reasons[self.active[index]] = "stop" if stopped[index] else "length"
        self.active = self.active[continuing]
        return continuing

    def _tails(self, window: int) -> list[list[int]]:
        spans = zip(self.active, self.lengths[self.active], strict=True)
        return [self.tokens[row, max(end - window, 0) : end].tolist() for row, end in spans]

    def text(self, number: int) -> list[int]:
        """A candidate's prompt and all its tokens."""
        prompt = self.prompts[number].token_ids
        generated: list[int] = self.tokens[number, self.offsets[number] : self.lengths[number]].tolist()
        return prompt + generated

    def results(self) -> Iterator[tuple[list[int], list[float], int, StopReason]]:
        """For each candidate: all its tokens, their log-probabilities, the number generated before, and the stop reason."""
        rows = zip(
            self.tokens.tolist(), self.logprobs.tolist(), self.lengths.tolist(), self.offsets.tolist(), self.reasons,
            strict=True,
        )  # fmt: skip
        return (
            (tokens[:length], logprobs[:length], offset, reason)
            for tokens, logprobs, length, offset, reason in rows
        )
