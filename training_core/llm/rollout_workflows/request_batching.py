"""Requests of episodes: requests at about the same time are generated in one batch."""

import asyncio
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from training_core.errors import EngineFailure
from training_core.llm.generation.base import Engine, SamplingSettings
from training_core.llm.generation.continuation import until_ended
from training_core.llm.rollout_workflows.api import GenerationHyperparameters
from training_core.types import Answer, Prompt


@dataclass(eq=False)
class _Asked:
    role: str
    prompt: Prompt
    settings: SamplingSettings
    answer: "asyncio.Future[Answer]"


class Requests:
    """Answers requests in one event loop. Pausing and loading weights are thread-safe."""

    def __init__(self, engines: Mapping[str, Engine], window: float) -> None:
        self._engines = engines
        self._window = window
        """Seconds that a request waits for further requests."""
        self._asked: list[_Asked] = []
        self.generating = threading.Event()
        """Cleared while generation is paused."""
        self.generating.set()
        self._model = threading.Lock()
        """Lock held during generation and while weights change."""

    async def ask(self, role: str, prompt: Prompt, settings: SamplingSettings) -> Answer:
        """One answer. Propagates the engine's exception for this request; other requests of its batch are not affected."""
        loop = asyncio.get_running_loop()
        asked = _Asked(role, prompt, settings, loop.create_future())
        self._asked.append(asked)
        if len(self._asked) == 1:
            loop.call_later(self._window, self._serve)
        return await asked.answer

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
        asked, self._asked = self._asked, []
        loop = asyncio.get_running_loop()
        for kind in dict.fromkeys((one.role, one.settings) for one in asked):
            some = [one for one in asked if (one.role, one.settings) == kind]
            loop.run_in_executor(None, self._generate, some, loop)

    def _generate(self, some: list[_Asked], loop: asyncio.AbstractEventLoop) -> None:
        """Answer requests of one role with the same sampling settings; on failure one by one, so that only the invalid ones fail."""
        engine, settings = self._engines[some[0].role], some[0].settings

        def say(prompts: Sequence[Prompt]) -> list[list[Answer]]:
            self.generating.wait()
            with self._model:
                return engine.generate(prompts, settings, lambda: not self.generating.is_set())

        try:
            answers = until_ended([one.prompt for one in some], say)
        except Exception as error:
            if len(some) == 1:
                loop.call_soon_threadsafe(_refuse, some[0], error)
            else:
                for one in some:
                    self._generate([one], loop)
        else:
            loop.call_soon_threadsafe(_hand_over, some, [group[0] for group in answers])


def settings_from(given: GenerationHyperparameters) -> SamplingSettings:
    """Convert to the engines' settings. Raises EngineFailure for more than one sample."""
    if given.n_samples != 1:
        raise EngineFailure(
            "agenerate gives one answer; call it n_samples times, concurrently with asyncio.gather"
        )
    return SamplingSettings(
        given.temperature, given.top_k, given.top_p, given.max_new_tokens, given.greedy, tuple(given.stop)
    )


def _hand_over(some: Sequence[_Asked], answers: Sequence[Answer]) -> None:
    for one, answer in zip(some, answers, strict=True):
        if not one.answer.done():
            one.answer.set_result(answer)


def _refuse(one: _Asked, error: Exception) -> None:
    if not one.answer.done():
        one.answer.set_exception(error)
