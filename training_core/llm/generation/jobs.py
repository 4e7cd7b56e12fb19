"""What an engine has to say in one batch: candidates, their noise and what they have said so far.

C candidates. Pure bookkeeping on numpy arrays: no model, no tensors.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from training_core.llm.generation.stop_words import StopWords
from training_core.seeding import Words, fold, key_states, uniforms
from training_core.types import Prompt, StopReason

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Job:
    """Some candidates of one prompt."""

    place: int
    """Of the prompt in the call."""
    prompt: Prompt
    first: int
    """Index of the first of these candidates in the prompt's group."""
    count: int


def split_jobs(prompts: Sequence[Prompt], limit: int) -> list[list[Job]]:
    """Batches of at most `limit` candidates. Where there are several, prompts of like length go together."""
    total = sum(prompt.count for prompt in prompts)
    order = range(len(prompts))
    places = order if total <= limit else sorted(order, key=lambda place: len(prompts[place].token_ids))
    batches: list[list[Job]] = []
    room = 0
    for place in places:
        first, left = 0, prompts[place].count
        while left:
            if not room:
                batches.append([])
                room = limit
            count = min(left, room)
            batches[-1].append(Job(place, prompts[place], first, count))
            first, left, room = first + count, left - count, room - count
    return batches


def by_length(jobs: Sequence[Job]) -> list[list[Job]]:
    """Jobs sorted into batches whose prompts have one length, for models that no padding leaves exact."""
    lengths: dict[int, list[Job]] = {}
    for job in jobs:
        lengths.setdefault(len(job.prompt.token_ids), []).append(job)
    return list(lengths.values())


class Candidates:
    """The candidates of a batch, in job order, while they speak."""

    def __init__(self, jobs: Sequence[Job], max_tokens: int) -> None:
        counts = [job.count for job in jobs]
        keys = key_states(np.asarray([job.prompt.key for job in jobs], dtype=np.int64))
        indices = np.concatenate([job.prompt.first + job.first + np.arange(job.count) for job in jobs])
        self.states: Words = fold(np.repeat(keys, counts), indices)
        """Hash state of each candidate's noise key (C,)."""
        self.offsets = np.repeat([job.prompt.offset for job in jobs], counts)
        """Tokens that each had said before (C,): the first columns of `tokens`."""
        self.tokens = np.zeros((len(indices), max_tokens), dtype=np.int64)
        for row, place in enumerate(np.repeat(np.arange(len(jobs)), counts)):
            prompt = jobs[place].prompt
            self.tokens[row, : prompt.offset] = prompt.token_ids[len(prompt.token_ids) - prompt.offset :]
        self.logprobs = np.zeros((len(indices), max_tokens), dtype=np.float64)
        self.lengths = self.offsets.copy()
        self.reasons: list[StopReason] = ["interrupt"] * len(indices)
        """Why each fell silent; those that still speak would be interrupted."""
        self.live: Ints = np.arange(len(indices))
        """Those that still speak."""

    def uniforms(self) -> NDArray[np.float64]:
        """A number in [0, 1) for each live candidate's next token."""
        return uniforms(fold(self.states[self.live], self.lengths[self.live]))

    def say(
        self, tokens: Ints, logprobs: NDArray[np.float64], stops: Ints, words: StopWords
    ) -> NDArray[np.bool_]:
        """Note the live candidates' next tokens. Returns who goes on: not those that stop or have said all they may."""
        spots = self.lengths[self.live]
        self.tokens[self.live, spots] = tokens
        self.logprobs[self.live, spots] = logprobs
        self.lengths[self.live] += 1
        stopped = np.isin(tokens, stops)
        if words.window:
            stopped |= words.ended(self._tails(words.window))
        on: NDArray[np.bool_] = ~stopped & (self.lengths[self.live] < self.tokens.shape[1])
        for place in np.flatnonzero(~on):
            self.reasons[self.live[place]] = "stop" if stopped[place] else "length"
        self.live = self.live[on]
        return on

    def _tails(self, window: int) -> list[list[int]]:
        spans = zip(self.live, self.lengths[self.live], strict=True)
        return [self.tokens[row, max(end - window, 0) : end].tolist() for row, end in spans]

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
