"""Batches of requests: requests to a policy at about the same time share one call to its engine."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from training_core.errors import EngineFailure, PromptTooLong
from training_core.llm.generation.base import Generate, SamplingSettings, generate_until_ended
from training_core.types import Answer, Prompt


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
                    request.answers.set_exception(_too_long(request.prompt))
                else:
                    request.answers.set_result(candidates)


def _too_long(prompt: Prompt) -> PromptTooLong:
    return PromptTooLong(
        f"a prompt of {len(prompt.token_ids) - prompt.offset} tokens leaves no room for an answer in the model's "
        "context; shorten the prompt"
    )


def _generate(batch: list[_Request]) -> list[list[Answer]]:
    generate, settings = batch[0].generate, batch[0].settings
    prompts = [request.prompt for request in batch]
    answers = generate_until_ended(prompts, lambda unfinished: generate(unfinished, settings))
    if len(answers) != len(prompts):
        raise EngineFailure(f"the engine answered {len(answers)} prompts of {len(prompts)}")
    return answers
