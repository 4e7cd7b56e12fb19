"""Calls that come at about the same time, answered in one batch."""

import asyncio
import logging
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import groupby

from training_core.errors import EngineFailure, PromptRefused, RequestRefused
from training_core.llm.agents.session import Voice
from training_core.llm.environments.host import describe
from training_core.llm.generation.base import SamplingSettings
from training_core.types import Answer, Prompt

log = logging.getLogger(__name__)


@dataclass(eq=False)
class _Waiting:
    voice: Voice
    prompt: Prompt
    settings: SamplingSettings
    answers: asyncio.Future[list[Answer]]


class Batcher:
    """One queue per policy: while a batch is generated the next one gathers. Lives in one event loop."""

    def __init__(self, window: float, threads: int) -> None:
        self._window = window
        """Seconds that the first call of a batch waits for others."""
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="gateway-generate")
        self._queues: dict[str, list[_Waiting]] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self.failure: Exception | None = None
        """The first thing that went wrong behind the gateway and is no caller's fault."""

    async def ask(self, voice: Voice, prompt: Prompt, settings: SamplingSettings) -> list[Answer]:
        """`prompt.count` answers. Raises RequestRefused."""
        waiting = _Waiting(voice, prompt, settings, asyncio.get_running_loop().create_future())
        self._queues.setdefault(voice.policy, []).append(waiting)
        task = self._tasks.get(voice.policy)
        if task is None or task.done():
            self._tasks[voice.policy] = asyncio.create_task(self._serve(voice.policy))
        return await waiting.answers

    def close(self) -> None:
        """Take no more work."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def _serve(self, policy: str) -> None:
        """Until the queue is empty: wait for company, then answer all that wait."""
        while self._queues[policy]:
            await asyncio.sleep(self._window)
            queue, self._queues[policy] = self._queues[policy], []
            queue.sort(key=_kind)
            for _, alike in groupby(queue, key=_kind):
                await self._answer(list(alike))

    async def _answer(self, some: list[_Waiting]) -> None:
        """One call to the engine; where it fails, one for each caller, so that only the one at fault hears of it."""
        try:
            answers = await self._generate(some)
            if len(answers) != len(some):
                raise EngineFailure(f"the engine answered {len(answers)} prompts of {len(some)}")
        except Exception as error:
            if len(some) > 1:
                for one in some:
                    await self._answer([one])
            elif not some[0].answers.done():
                some[0].answers.set_exception(await self._refusal(some[0], error))
        else:
            for one, given in zip(some, answers, strict=True):
                if not one.answers.done():
                    one.answers.set_result(given)

    async def _refusal(self, one: _Waiting, error: Exception) -> RequestRefused:
        """What the caller of a failed request is told. The run fails only where the engine fails at any request.

        Whose fault it was is tried: an engine that still answers a prompt of one token failed by the request.
        """
        if isinstance(error, PromptRefused):
            code = "context_length_exceeded" if "context" in str(error) else "invalid_request"
            return RequestRefused(str(error), 400, code)
        log.warning("a policy failed to answer a request: %s", describe(error))
        ids = one.voice.renderer.encode("hello")[:1] or [0]
        trial = replace(one.prompt, token_ids=ids, count=1, offset=0, rid="")
        settings = replace(one.settings, max_tokens=1)
        try:
            await self._generate([_Waiting(one.voice, trial, settings, one.answers)])
        except Exception:
            self.failure = self.failure or error
            return RequestRefused(f"the policy cannot answer: {error}", 503, "unavailable")
        return RequestRefused(f"the policy failed on this request: {describe(error)}", 500, "engine_failure")

    async def _generate(self, some: list[_Waiting]) -> list[list[Answer]]:
        generate = some[0].voice.generate
        prompts = [one.prompt for one in some]
        return await asyncio.get_running_loop().run_in_executor(
            self._threads, generate, prompts, some[0].settings
        )


def _kind(waiting: _Waiting) -> tuple[int, str]:
    """What may share a call to the engine: the same voice of a policy, the same settings."""
    return id(waiting.voice.generate), repr(waiting.settings)
