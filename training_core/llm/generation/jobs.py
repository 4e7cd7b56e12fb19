"""What an engine has to say in one batch: candidates, their noise and what they have said so far.

C candidates. Pure bookkeeping on numpy arrays: no model, no tensors.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from training_core.seeding import Words, fold, key_states, uniforms
from training_core.types import Prompt

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
        indices = np.concatenate([np.arange(job.first, job.first + job.count) for job in jobs])
        self.states: Words = fold(np.repeat(keys, counts), indices)
        """Hash state of each candidate's noise key (C,)."""
        self.tokens = np.zeros((len(indices), max_tokens), dtype=np.int64)
        self.logprobs = np.zeros((len(indices), max_tokens), dtype=np.float64)
        self.lengths = np.zeros(len(indices), dtype=np.int64)
        self.live: Ints = np.arange(len(indices))
        """Those that still speak."""

    def uniforms(self, step: int) -> NDArray[np.float64]:
        """A number in [0, 1) for each live candidate's token at this position."""
        return uniforms(fold(self.states[self.live], step))

    def say(self, step: int, tokens: Ints, logprobs: NDArray[np.float64], stops: Ints) -> NDArray[np.bool_]:
        """Note the live candidates' next tokens; those that said a stop token fall silent. Returns who goes on."""
        self.tokens[self.live, step] = tokens
        self.logprobs[self.live, step] = logprobs
        self.lengths[self.live] = step + 1
        on: NDArray[np.bool_] = ~np.isin(tokens, stops)
        self.live = self.live[on]
        return on

    def said(self) -> Iterator[tuple[list[int], list[float]]]:
        """Each candidate's tokens and their log-probabilities."""
        rows = zip(self.tokens.tolist(), self.logprobs.tolist(), self.lengths.tolist(), strict=True)
        return ((tokens[:length], logprobs[:length]) for tokens, logprobs, length in rows)
