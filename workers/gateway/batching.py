"""Collects requests that arrive at about the same time into one batch."""

import asyncio
import logging
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import groupby

from training_core.errors import EngineFailure, PromptRefused, RequestRefused
from training_core.llm.agents.session import PolicyClient
from training_core.llm.environments.host import describe
from training_core.llm.generation.base import SamplingSettings
from training_core.types import Answer, Prompt

log = logging.getLogger(__name__)


@dataclass(eq=False)
class _Waiting:
    client: PolicyClient
    prompt: Prompt
    settings: SamplingSettings
    answers: asyncio.Future[list[Answer]]


class Batcher:
    """One queue per policy: while a batch is generated, the next one is collected. Used in one event loop."""

    def __init__(self, window: float, threads: int) -> None:
        self._window = window
        """Seconds that the first request of a batch waits for others."""
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="gateway-generate")
        self._queues: dict[str, list[_Waiting]] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self.failure: Exception | None = None
        """The first failure of an engine that no request caused."""

    async def ask(self, client: PolicyClient, prompt: Prompt, settings: SamplingSettings) -> list[Answer]:
        """`prompt.count` answers. Raises RequestRefused."""
        waiting = _Waiting(client, prompt, settings, asyncio.get_running_loop().create_future())
        self._queues.setdefault(client.policy, []).append(waiting)
        task = self._tasks.get(client.policy)
        if task is None or task.done():
            self._tasks[client.policy] = asyncio.create_task(self._serve(client.policy))
        return await waiting.answers

    def close(self) -> None:
        """End the threads."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def _serve(self, policy: str) -> None:
        """Until the queue is empty: wait for the window, then answer all waiting requests."""
        while self._queues[policy]:
            await asyncio.sleep(self._window)
            queue, self._queues[policy] = self._queues[policy], []
            queue.sort(key=_kind)
            for _, alike in groupby(queue, key=_kind):
                await self._answer(list(alike))

    async def _answer(self, requests: list[_Waiting]) -> None:
        """Call the engine once; if it fails, once per request, so that only the request at fault fails."""
        try:
            answers = await self._generate(requests)
            if len(answers) != len(requests):
                raise EngineFailure(f"the engine answered {len(answers)} prompts of {len(requests)}")
        except Exception as error:
            if len(requests) > 1:
                for request in requests:
                    await self._answer([request])
            elif not requests[0].answers.done():
                requests[0].answers.set_exception(await self._refusal(requests[0], error))
        else:
            for request, candidates in zip(requests, answers, strict=True):
                if not request.answers.done():
                    request.answers.set_result(candidates)

    async def _refusal(self, request: _Waiting, error: Exception) -> RequestRefused:
        """The refusal of a failed request. The run fails only if the engine fails at every request.

        A prompt of one token tests the engine: if it answers that, the request was at fault.
        """
        if isinstance(error, PromptRefused):
            code = "context_length_exceeded" if "context" in str(error) else "invalid_request"
            return RequestRefused(str(error), 400, code)
        log.warning("a policy failed to answer a request: %s", describe(error))
        ids = request.client.renderer.encode("hello")[:1] or [0]
        trial = replace(request.prompt, token_ids=ids, count=1, offset=0, rid="")
        settings = replace(request.settings, max_tokens=1)
        try:
            await self._generate([_Waiting(request.client, trial, settings, request.answers)])
        except Exception:
            self.failure = self.failure or error
            return RequestRefused(f"the policy cannot answer: {error}", 503, "unavailable")
        return RequestRefused(f"the policy failed on this request: {describe(error)}", 500, "engine_failure")

    async def _generate(self, requests: list[_Waiting]) -> list[list[Answer]]:
        generate = requests[0].client.generate
        prompts = [request.prompt for request in requests]
        return await asyncio.get_running_loop().run_in_executor(
            self._threads, generate, prompts, requests[0].settings
        )


def _kind(waiting: _Waiting) -> tuple[int, str]:
    """Key of requests that may share a call to the engine: the same client of a policy, the same settings."""
    return id(waiting.client.generate), repr(waiting.settings)
