"""The engine that rollout workflows talk to: one answer at a time from inside, batches of episodes from outside.

After AReaL's InferenceEngine (arXiv 2505.24298). Workflows run in an event loop of their own thread; what they ask at about
the same time is generated in one batch. Episodes begin as the bound on staleness allows, whoever asks for them.
"""

import asyncio
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial
from typing import Any, Self

from training_core.algorithms.staleness import capacity
from training_core.errors import EngineFailure
from training_core.llm.generation.base import Engine, SamplingSettings
from training_core.llm.generation.resuming import until_ended
from training_core.llm.rollout_workflows.api import (
    EpisodeResult,
    GenerationHyperparameters,
    ModelRequest,
    ModelResponse,
    RolloutWorkflow,
    Trajectory,
)
from training_core.llm.rollout_workflows.loader import RestartingLoader
from training_core.llm.rollout_workflows.tensors import concat_padded_tensors
from training_core.types import Answer, NoiseKey, Prompt

STREAM = 5
"""Of sampling noise: episodes of rollout workflows."""
ShouldAccept = Callable[[EpisodeResult], bool]
_POLL = 0.05


@dataclass(frozen=True)
class Limits:
    """How many episodes may be in play, and how old what they say may become."""

    max_concurrent: int = 64
    """Episodes in play at a time."""
    batch: int = 1
    """Episodes that one version of the weights learns from; only counts where staleness is bounded."""
    staleness: int | None = None
    """Eta: versions that data may be old when it is learnt from; None sets no bound."""
    window: float = 0.002
    """Seconds that a request waits for others, to be answered in one batch with them."""


@dataclass(frozen=True)
class _Task:
    """An episode that was asked for."""

    number: int
    data: dict[str, Any]
    make: Callable[[], RolloutWorkflow]
    accepts: ShouldAccept | None
    done: "Future[EpisodeResult]"


@dataclass(eq=False)
class _Asked:
    role: str
    prompt: Prompt
    settings: SamplingSettings
    answer: "asyncio.Future[Answer]"


_PLAYING: ContextVar[list[int]] = ContextVar("playing")
"""[number of the episode, calls it has made]: what sampling noise depends on, never timing."""


class InferenceEngine:
    """See the head of this file. A context manager: `initialize` on entry, `destroy` on exit."""

    def __init__(
        self,
        engine: Engine | Mapping[str, Engine],
        limits: Limits | None = None,
        *,
        noise: tuple[int, int, int] = (0, STREAM, 0),
        first: int = 0,
    ) -> None:
        """`engine` may be one for each role, which requests name as metadata["role"] (the first one, if they do not).
        `noise` is (seed, stream, iteration) of all sampling, and `first` the number of the first episode.
        """
        self._engines = dict(engine) if isinstance(engine, Mapping) else {"": engine}
        self._limits = limits or Limits()
        self._noise = noise
        self._lock = threading.Condition()
        self._version = max(one.version for one in self._engines.values())
        self._next = first
        self._open: set[int] = set()
        """Episodes that were asked for and have not ended, by number."""
        self._waiting: list[_Task] = []
        self._running = 0
        self._accepted = 0
        self._ended: list[_Task] = []
        """Accepted and not yet fetched, in the order in which they ended."""
        self._paused = False
        self._generating = threading.Event()
        self._generating.set()
        self._model = threading.Lock()
        """Held while the model generates, and while its weights change."""
        self._asked: list[_Asked] = []
        self._alone = [0, 0]
        """Of calls that no episode makes: see _PLAYING."""
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    def __enter__(self) -> Self:
        self.initialize()
        return self

    def __exit__(self, *error: object) -> None:
        self.destroy()

    def initialize(self) -> None:
        """Start the thread that workflows run in."""
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="rollout-workflows", daemon=True)
        self._thread.start()

    def destroy(self) -> None:
        """End it, and whatever is in play."""
        if self._loop is None or self._thread is None:
            return
        self._generating.set()
        asyncio.run_coroutine_threadsafe(_cancel_all(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
        self._loop = self._thread = None

    # What a workflow calls.

    async def agenerate(self, request: ModelRequest) -> ModelResponse:
        """One answer. Weights that change meanwhile interrupt it; it goes on with them. Raises EngineFailure.

        For workflows; from another event loop only while no episode is in play.
        """
        started = time.time()
        if request.gconfig.n_samples != 1:
            raise EngineFailure(
                "agenerate gives one answer; call it n_samples times, at once with asyncio.gather"
            )
        number = _PLAYING.get(self._alone)
        role = str(request.metadata.get("role") or next(iter(self._engines)))
        if role not in self._engines:
            raise EngineFailure(f"there is no role {role!r}; roles are {', '.join(self._engines)}")
        seat = list(self._engines).index(role)
        key = NoiseKey(*self._noise, number[0], number[1], seat)
        prompt = Prompt(list(request.input_ids), 1, key, rid=request.rid)
        number[1] += 1
        asked = _Asked(
            role, prompt, settings_from(request.gconfig), asyncio.get_running_loop().create_future()
        )
        self._asked.append(asked)
        if len(self._asked) == 1:
            asyncio.get_running_loop().call_later(self._limits.window, self._serve)
        answer = await asked.answer
        return ModelResponse(
            list(request.input_ids), answer.token_ids, answer.logprobs, answer.versions, answer.stop_reason,
            time.time() - started,
        )  # fmt: skip

    # What a trainer calls.

    def submit(
        self,
        data: dict[str, Any],
        workflow: RolloutWorkflow | None = None,
        workflow_builder: Callable[[], RolloutWorkflow] | None = None,
        should_accept: ShouldAccept | None = None,
    ) -> int:
        """Ask for an episode; its number. It begins when there is room. Raises ValueError without a workflow."""
        if workflow is not None:
            make: Callable[[], RolloutWorkflow] = partial(_itself, workflow)
        elif workflow_builder is not None:
            make = workflow_builder
        else:
            raise ValueError("submit needs a workflow or a workflow_builder")
        with self._lock:
            task = _Task(self._next, data, make, should_accept, Future())
            self._next += 1
            self._open.add(task.number)
            self._waiting.append(task)
        self._dispatch()
        return task.number

    def wait(self, count: int, timeout: float | None = None) -> list[EpisodeResult]:
        """`count` accepted episodes, in the order in which they were asked for.

        Raises TimeoutError, keeping what has ended; raises what a workflow raised.
        """
        with self._lock:
            if not self._lock.wait_for(lambda: self._broken() or len(self._ended) >= count, timeout):
                raise TimeoutError(f"{len(self._ended)} of {count} episodes had ended after {timeout} s")
            broken = self._broken()
            if broken is not None:
                self._ended.remove(broken)
                broken.done.result()
            taken, self._ended = self._ended[:count], self._ended[count:]
        return _results(taken)

    def rollout_batch(
        self,
        data: Sequence[dict[str, Any]],
        workflow: RolloutWorkflow | None = None,
        workflow_builder: Callable[[], RolloutWorkflow] | None = None,
        should_accept: ShouldAccept | None = None,
    ) -> Trajectory:
        """Play an episode on each row and wait for all; one padded batch. Rejected rows are missing from it."""
        numbers = {self.submit(row, workflow, workflow_builder, should_accept) for row in data}
        with self._lock:
            self._lock.wait_for(lambda: not numbers & self._open)
            own = [task for task in self._ended if task.number in numbers]
            self._ended = [task for task in self._ended if task.number not in numbers]
        return concat_padded_tensors([_tensors(result) for result in _results(own)])

    def prepare_batch(
        self,
        loader: RestartingLoader,
        workflow: RolloutWorkflow | None = None,
        workflow_builder: Callable[[], RolloutWorkflow] | None = None,
        should_accept: ShouldAccept | None = None,
    ) -> Trajectory:
        """The next loader.batch_size accepted episodes, while later ones are already in play: the asynchronous form."""
        while True:
            while self.capacity > len(self._waiting):
                for row in next(loader):
                    self.submit(row, workflow, workflow_builder, should_accept)
            try:
                return concat_padded_tensors(
                    [_tensors(result) for result in self.wait(loader.batch_size, timeout=_POLL)]
                )
            except TimeoutError:
                continue

    def pause(self) -> None:
        """Begin no episode until `resume`; what is in play goes on."""
        self._paused = True

    def resume(self) -> None:
        """Undo `pause`."""
        self._paused = False
        self._dispatch()

    def pause_generation(self) -> None:
        """Interrupt answers between two tokens; returns when the model is at rest."""
        self._generating.clear()
        with self._model:
            pass

    def continue_generation(self) -> None:
        """Go on with them, from the token where they were."""
        self._generating.set()

    def update_weights(self, weights: Any, version: int) -> None:
        """Load weights (name -> tensor) between two tokens; answers in play go on with them. Raises EngineFailure.

        For an engine that all roles share.
        """
        (engine,) = self._engines.values()
        self.pause_generation()
        try:
            with self._model:
                engine.load_weights(weights, version)
        finally:
            self.continue_generation()
        self.set_version(version)

    def get_version(self) -> int:
        """Version of the weights, by which new episodes are admitted."""
        return self._version

    def set_version(self, version: int) -> None:
        """See get_version."""
        self._version = version
        self._dispatch()

    @property
    def capacity(self) -> int:
        """How many more episodes may begin now."""
        with self._lock:
            return self._capacity()

    def _capacity(self) -> int:
        free = self._limits.max_concurrent - self._running
        if self._limits.staleness is None:
            return free
        return capacity(
            staleness=self._limits.staleness,
            version=self._version,
            batch=self._limits.batch,
            accepted=self._accepted,
            running=self._running,
            max_concurrent=self._limits.max_concurrent,
        )

    def _dispatch(self) -> None:
        """Begin what may begin."""
        assert self._loop is not None, "initialize the engine first"
        with self._lock:
            while self._waiting and not self._paused and self._capacity() > 0:
                self._running += 1
                asyncio.run_coroutine_threadsafe(self._play(self._waiting.pop(0)), self._loop)

    async def _play(self, task: _Task) -> None:
        _PLAYING.set([task.number, 0])
        accepted = False
        try:
            result = await task.make().arun_episode(self, task.data)
            accepted = result is not None and (task.accepts is None or task.accepts(result))
            task.done.set_result(result)
        except Exception as error:
            task.done.set_exception(error)
        with self._lock:
            self._running -= 1
            self._open.remove(task.number)
            self._accepted += accepted
            if accepted or task.done.exception() is not None:
                self._ended.append(task)
            self._lock.notify_all()
        self._dispatch()

    def _broken(self) -> _Task | None:
        return next((task for task in self._ended if task.done.exception() is not None), None)

    def _serve(self) -> None:
        """Generate for all that have asked, in a thread; runs in the event loop."""
        asked, self._asked = self._asked, []
        loop = asyncio.get_running_loop()
        for kind in dict.fromkeys((one.role, one.settings) for one in asked):
            some = [one for one in asked if (one.role, one.settings) == kind]
            loop.run_in_executor(None, self._generate, some, loop)

    def _generate(self, some: list[_Asked], loop: asyncio.AbstractEventLoop) -> None:
        """Answer requests of one role that are sampled alike."""
        engine, settings = self._engines[some[0].role], some[0].settings

        def say(prompts: Sequence[Prompt]) -> list[list[Answer]]:
            self._generating.wait()
            with self._model:
                return engine.generate(prompts, settings, lambda: not self._generating.is_set())

        try:
            answers = until_ended([one.prompt for one in some], say)
        except Exception as error:
            loop.call_soon_threadsafe(_refuse, some, error)
        else:
            loop.call_soon_threadsafe(_hand_over, some, [group[0] for group in answers])


def _itself(workflow: RolloutWorkflow) -> RolloutWorkflow:
    return workflow


def settings_from(given: GenerationHyperparameters) -> SamplingSettings:
    """What our engines call them."""
    return SamplingSettings(
        given.temperature, given.top_k, given.top_p, given.max_new_tokens, given.greedy, tuple(given.stop)
    )


def _tensors(result: EpisodeResult) -> Trajectory:
    if isinstance(result, dict):
        return result
    raise TypeError("batches are made of tensors; a workflow that returns interactions is for `wait`")


def _hand_over(some: Sequence[_Asked], answers: Sequence[Answer]) -> None:
    for one, answer in zip(some, answers, strict=True):
        if not one.answer.done():
            one.answer.set_result(answer)


def _refuse(some: Sequence[_Asked], error: Exception) -> None:
    for one in some:
        if not one.answer.done():
            one.answer.set_exception(error)


def _results(tasks: Sequence[_Task]) -> list[EpisodeResult]:
    """In the order in which they were asked for. Raises what a workflow raised."""
    return [task.done.result() for task in sorted(tasks, key=lambda task: task.number)]


async def _cancel_all() -> None:
    others = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)
    await asyncio.get_running_loop().shutdown_default_executor()
