"""Batches of episodes' requests: requests at about the same time are generated in one batch."""

import asyncio
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from training_core.errors import EngineFailure
from training_core.llm.generation.base import Engine, SamplingSettings
from training_core.llm.generation.continuation import generate_until_ended
from training_core.llm.rollout_workflows.api import GenerationHyperparameters
from training_core.types import Answer, Prompt


@dataclass(eq=False)
class _WaitingRequest:
    role: str
    prompt: Prompt
    settings: SamplingSettings
    answer: "asyncio.Future[Answer]"


class RequestBatcher:
    """Answers requests in one event loop. Pausing and loading weights are thread-safe."""

    def __init__(self, engines: Mapping[str, Engine], window: float) -> None:
        self._engines = engines
        self._window = window
        """Seconds that a request waits for further requests."""
        self._waiting: list[_WaitingRequest] = []
        self.generating = threading.Event()
        """Cleared while generation is paused."""
        self.generating.set()
        self._model = threading.Lock()
        """Lock held during generation and while weights change."""

    async def generate_answer(self, role: str, prompt: Prompt, settings: SamplingSettings) -> Answer:
        """One answer. Propagates the engine's exception for this request; other requests of its batch are not affected."""
        loop = asyncio.get_running_loop()
        waiting = _WaitingRequest(role, prompt, settings, loop.create_future())
        self._waiting.append(waiting)
        if len(self._waiting) == 1:
            loop.call_later(self._window, self._serve)
        return await waiting.answer

    def pause(self) -> None:
        """Interrupt answers between two tokens; returns when the model is at rest."""
        self.generating.clear()
        with self._model:
            pass

    def load_weights(self, weights: Any, version: int) -> None:
        """Load weights between two tokens; running answers continue with them. Raises EngineFailure.

        For an engine that all roles share.
        """
        (engine,) = self._engines.values()
        self.pause()
        try:
            with self._model:
                engine.load_weights(weights, version)
        finally:
            self.generating.set()

    def _serve(self) -> None:
        """Generate for all waiting requests in a thread; runs in the event loop."""
        waiting, self._waiting = self._waiting, []
        loop = asyncio.get_running_loop()
        for key in dict.fromkeys((request.role, request.settings) for request in waiting):
            requests = [request for request in waiting if (request.role, request.settings) == key]
            loop.run_in_executor(None, self._generate, requests, loop)

    def _generate(self, requests: list[_WaitingRequest], loop: asyncio.AbstractEventLoop) -> None:
        """Answer requests of one role with the same sampling settings; on failure one by one, so that only the invalid ones fail."""
        engine, settings = self._engines[requests[0].role], requests[0].settings

        def generate(prompts: Sequence[Prompt]) -> list[list[Answer]]:
            self.generating.wait()
            with self._model:
                return engine.generate(prompts, settings, lambda: not self.generating.is_set())

        try:
            answers = generate_until_ended([request.prompt for request in requests], generate)
        except Exception as error:
            if len(requests) == 1:
                loop.call_soon_threadsafe(_set_error, requests[0], error)
            else:
                for request in requests:
                    self._generate([request], loop)
        else:
            loop.call_soon_threadsafe(_set_answers, requests, [group[0] for group in answers])


def settings_from(parameters: GenerationHyperparameters) -> SamplingSettings:
    """Convert to the engines' settings. Raises EngineFailure for more than one sample."""
    if parameters.n_samples != 1:
        raise EngineFailure(
            "agenerate gives one answer; call it n_samples times, concurrently with asyncio.gather"
        )
    return SamplingSettings(
        parameters.temperature,
        parameters.top_k,
        parameters.top_p,
        parameters.max_new_tokens,
        parameters.greedy,
        tuple(parameters.stop),
    )


def _set_answers(requests: Sequence[_WaitingRequest], answers: Sequence[Answer]) -> None:
    for request, answer in zip(requests, answers, strict=True):
        if not request.answer.done():
            request.answer.set_result(answer)


def _set_error(request: _WaitingRequest, error: Exception) -> None:
    if not request.answer.done():
        request.answer.set_exception(error)
