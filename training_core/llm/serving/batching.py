"""The way of a request to its engine: one queue per policy, a gate for new weights, and keys of the sampling noise.

Requests to a policy at about the same time share one call to its engine.
"""

import asyncio
import threading
import zlib
from array import array
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass

from training_core.errors import EngineFailure, PromptTooLong
from training_core.llm.generation.base import Generate, SamplingSettings, generate_until_ended
from training_core.types import Answer, NoiseKey, Prompt


class Gate:
    """Admits at most `slots` generations at a time (None: any number); closing has priority over waiting ones."""

    def __init__(self, slots: int | None = 1) -> None:
        self._slots = slots
        self._changed = threading.Condition()
        self._inside = 0
        self._closings = 0
        self._end = ""

    @property
    def closing(self) -> bool:
        """Whether the gate is closed or about to close: the current generations may stop between two tokens."""
        return self._closings > 0 or bool(self._end)

    @contextmanager
    def passing(self) -> Iterator[None]:
        """Wait until the gate is open and has a free slot, and occupy it during the block. Raises EngineFailure after `end`."""
        with self._changed:
            self._changed.wait_for(self._admits)
            if self._end:
                raise EngineFailure(self._end)
            self._inside += 1
        try:
            yield
        finally:
            with self._changed:
                self._inside -= 1
                self._changed.notify_all()

    def close(self) -> None:
        """Admit no generation until `open`, and wait for the current ones. Several `close` calls may overlap."""
        with self._changed:
            self._closings += 1
            self._changed.wait_for(lambda: not self._inside)

    def open(self) -> None:
        """Undo one `close`."""
        with self._changed:
            self._closings = max(0, self._closings - 1)
            self._changed.notify_all()

    @contextmanager
    def closed(self) -> Iterator[None]:
        """Close the gate during the block."""
        self.close()
        try:
            yield
        finally:
            self.open()

    def end(self, reason: str) -> None:
        """Refuse waiting and later generations."""
        with self._changed:
            self._end = reason
            self._changed.notify_all()

    def _admits(self) -> bool:
        return bool(self._end) or (not self._closings and (self._slots is None or self._inside < self._slots))


_DIGEST, _MEMBER = 16, 48
"""Lowest bits of a prompt's digest and of a member's index in the key's turn; repetitions are below."""


class EpisodeNoise:
    """Keys by prompt, and by how often the episode sent it before, never by timing or by the order of different calls."""

    def __init__(self, seed: int, stream: int, iteration: int, episode: int, member: int = 0) -> None:
        """`episode`: its index among those of its kind; `member`: index of a play, if the episode is played several times."""
        self._words = seed, stream, iteration, episode
        self._member = member
        self._calls: Counter[tuple[int, int]] = Counter()

    def of_member(self, index: int) -> "EpisodeNoise":
        """The noise of one of several plays of the episode."""
        return EpisodeNoise(*self._words, index)

    def key(self, role_index: int, prompt_ids: Sequence[int]) -> NoiseKey:
        """The key of the episode's next call with this prompt by the role with this index in the team's order."""
        digest = zlib.crc32(array("q", prompt_ids).tobytes())
        repeats = self._calls[role_index, digest]
        self._calls[role_index, digest] += 1
        return NoiseKey(*self._words, (self._member << _MEMBER) + (digest << _DIGEST) + repeats, role_index)


@dataclass(eq=False)
class _Request:
    generate: Generate
    prompt: Prompt
    settings: SamplingSettings
    answers: asyncio.Future[list[Answer]]


class RequestBatcher:
    """One queue per policy: while a batch is generated, the next one is collected. For one event loop at a time."""

    def __init__(self, window: float, threads: int) -> None:
        """`window`: seconds that the first request of a batch waits for others. `threads`: policies that generate at once."""
        self._window = window
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="generate")
        self._queues: dict[str, list[_Request]] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}

    async def generate_answers(
        self, policy: str, generate: Generate, prompt: Prompt, settings: SamplingSettings
    ) -> list[Answer]:
        """`prompt.count` answers; interrupted ones are continued.

        Raises the engine's exception for this prompt, PromptTooLong if it leaves no room for an answer; other requests of
        its batch are not affected.
        """
        request = _Request(generate, prompt, settings, asyncio.get_running_loop().create_future())
        self._queues.setdefault(policy, []).append(request)
        task = self._tasks.get(policy)
        if task is None or task.done():
            self._tasks[policy] = asyncio.create_task(self._serve(policy))
        return await request.answers

    def close(self) -> None:
        """End the threads after their current batches."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def _serve(self, policy: str) -> None:
        """Until the queue is empty: wait for the window, then answer all waiting requests, alike ones in one batch."""
        while self._queues[policy]:
            await asyncio.sleep(self._window)
            queue, self._queues[policy] = self._queues[policy], []
            batches: dict[tuple[Generate, SamplingSettings], list[_Request]] = {}
            for request in queue:
                batches.setdefault((request.generate, request.settings), []).append(request)
            for batch in batches.values():
                await self._answer(batch)

    async def _answer(self, batch: list[_Request]) -> None:
        """Call the engine once; if it fails, once per request, so that only the request at fault fails."""
        try:
            loop = asyncio.get_running_loop()
            answers = await loop.run_in_executor(self._threads, _generate, batch)
        except Exception as error:
            if len(batch) > 1:
                for request in batch:
                    await self._answer([request])
            elif not batch[0].answers.done():
                batch[0].answers.set_exception(error)
        else:
            for request, candidates in zip(batch, answers, strict=True):
                if request.answers.done():
                    continue
                if any(answer.had_no_room for answer in candidates):
                    length = len(request.prompt.token_ids) - request.prompt.offset
                    reason = (
                        f"a prompt of {length} tokens leaves no room for an answer in the model's context"
                    )
                    request.answers.set_exception(PromptTooLong(reason, remedy="shorten the prompt"))
                else:
                    request.answers.set_result(candidates)


def _generate(batch: list[_Request]) -> list[list[Answer]]:
    generate, settings = batch[0].generate, batch[0].settings
    prompts = [request.prompt for request in batch]
    answers = generate_until_ended(prompts, lambda unfinished: generate(unfinished, settings))
    if len(answers) != len(prompts):
        raise EngineFailure(f"the engine answered {len(answers)} prompts of {len(prompts)}")
    return answers
