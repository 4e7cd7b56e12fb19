"""The engine of rollout workflows: workflows request single answers, trainers request batches of episodes.

Based on AReaL's InferenceEngine (arXiv 2505.24298). Workflows run in the event loop of the process; requests at
about the same time are generated in one batch. Episodes start as the bound on staleness allows, independent of the
caller.
"""

import asyncio
import copy
import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import partial
from random import Random
from typing import Any, Self

from training_core.errors import EngineFailure, EnvironmentFailure, NoReward, PromptTooLong
from training_core.event_loop import TaskScope
from training_core.importing import load_object
from training_core.llm.generation.base import Engine, Generate, SamplingSettings
from training_core.llm.rollout_workflows.api import (
    EpisodeResult,
    GenerationHyperparameters,
    Interaction,
    ModelRequest,
    ModelResponse,
    RolloutWorkflow,
    Trajectory,
    token_ids_of,
)
from training_core.llm.rollout_workflows.tensors import concat_padded_tensors
from training_core.llm.serving.admission import Admission
from training_core.llm.serving.batching import EpisodeNoise, Gate, RequestBatcher
from training_core.seeding import NoiseStream, keyed_seed
from training_core.types import Answer, Prompt


@dataclass
class RunningEpisode:
    """The running episode: its sampling noise and its responses."""

    noise: EpisodeNoise
    responses: list[tuple[str, ModelResponse]] = field(default_factory=list)
    """(role, response) of every call, in the order of responses."""
    reward_parts: dict[str, float] = field(default_factory=dict)
    """Sums of the parts of rewards that its reward function has reported, by name."""


RUNNING_EPISODE: ContextVar[RunningEpisode] = ContextVar("playing")


class GroupedWorkflow(RolloutWorkflow):
    """Plays `size` episodes, each on a copy of the data, and joins the accepted ones' tensors or interactions."""

    def __init__(self, make: Callable[[], RolloutWorkflow], size: int) -> None:
        self._make = make
        self._size = size

    async def arun_episode(self, engine: "InferenceEngine", data: dict[str, Any]) -> EpisodeResult:
        """Play the members of a group at the same time; None if every member is rejected."""
        noise = RUNNING_EPISODE.get().noise

        async def member(index: int) -> EpisodeResult:
            RUNNING_EPISODE.set(RunningEpisode(noise.of_member(index)))
            return await self._make().arun_episode(engine, copy.deepcopy(data))

        results = await asyncio.gather(*(asyncio.create_task(member(index)) for index in range(self._size)))
        accepted: list[Any] = [result for result in results if result is not None]
        if not accepted:
            return None
        tensors = [result for result in accepted if isinstance(result, dict) and "input_ids" in result]
        if len(tensors) == len(accepted):
            return concat_padded_tensors(tensors)
        lists = [result.values() if isinstance(result, Mapping) else result for result in accepted]
        return [item for result in lists for item in result if isinstance(item, Interaction)]


def workflow_factory(
    workflow: RolloutWorkflow | str | None,
    build: Callable[[], RolloutWorkflow] | None,
    kwargs: Mapping[str, Any] | None,
    group_size: int,
) -> Callable[[], RolloutWorkflow]:
    """A function that constructs the workflow of an episode. Raises ValueError without one, ConfigError if its import path is invalid."""
    if isinstance(workflow, str):
        build = partial(load_object(workflow, "workflow"), **dict(kwargs or {}))
    elif workflow is not None:
        build = partial(_return_workflow, workflow)
    if build is None:
        raise ValueError("submit needs a workflow, its import path, or a workflow_builder")
    if group_size < 1:
        raise ValueError(f"group_size = {group_size}: it must be at least 1")
    return build if group_size == 1 else partial(GroupedWorkflow, build, group_size)


def _return_workflow(workflow: RolloutWorkflow) -> RolloutWorkflow:
    return workflow


class RestartingLoader:
    """Iterates over batches of rows without end, each epoch with a new shuffle. Rows that do not fill a batch start the next one."""

    def __init__(self, rows: Sequence[Any], batch_size: int, *, seed: int = 0, shuffle: bool = True) -> None:
        if not rows:
            raise ValueError("there are no rows to load")
        self.batch_size = batch_size
        self._rows = rows
        self._seed = seed
        self._shuffle = shuffle
        self._position = 0
        """Rows returned so far."""
        self._permutation: list[int] = []
        self._epoch_of_order = -1

    def __iter__(self) -> Iterator[list[Any]]:
        return self

    def __next__(self) -> list[Any]:
        batch = [self._row(self._position + offset) for offset in range(self.batch_size)]
        self._position += self.batch_size
        return batch

    @property
    def epoch(self) -> int:
        """Number of completed passes over all rows."""
        return self._position // len(self._rows)

    def state_dict(self) -> dict[str, int]:
        """The position of the loader."""
        return {"given": self._position}

    def load_state_dict(self, state: dict[str, int]) -> None:
        """Resume from a `state_dict`."""
        self._position = state["given"]

    def _row(self, number: int) -> Any:
        epoch, offset = divmod(number, len(self._rows))
        return self._rows[self._permutation_of(epoch)[offset]]

    def _permutation_of(self, epoch: int) -> list[int]:
        if epoch != self._epoch_of_order:
            self._permutation = list(range(len(self._rows)))
            if self._shuffle:
                Random(keyed_seed(self._seed, epoch)).shuffle(self._permutation)
            self._epoch_of_order = epoch
        return self._permutation


ShouldAccept = Callable[[EpisodeResult], bool]
_POLL_SECONDS = 0.05
_MAX_FAILED_BATCHES = 3
"""Maximum consecutive failed episodes, in batches."""
log = logging.getLogger(__name__)


@dataclass(frozen=True)
class RolloutLimits:
    """Limits on concurrent episodes and on the age of their tokens."""

    max_concurrent: int = 64
    """Episodes played at the same time."""
    batch: int = 1
    """Episodes per version of the weights; only used if staleness is bounded."""
    staleness: int | None = None
    """Eta: maximum age of training data in versions; None sets no bound."""
    window: float = 0.002
    """Seconds that a request waits for further requests, to be answered in one batch with them."""


@dataclass(eq=False)
class _Task:
    """A requested episode."""

    number: int
    data: dict[str, Any]
    make: Callable[[], RolloutWorkflow]
    accepts: ShouldAccept | None
    is_eval: bool
    result: EpisodeResult = None
    """None also for an episode that failed."""


class InferenceEngine:
    """An engine with AReaL's interface for rollout workflows. A context manager: `initialize` on entry, `destroy` on exit."""

    def __init__(
        self, engine: Engine | Mapping[str, Engine], limits: RolloutLimits | None = None, *, seed: int = 0
    ) -> None:
        """`engine` may be one per role, which requests name as metadata["role"] (default: the first); `seed` is that of
        the sampling noise.
        """
        self._engines = dict(engine) if isinstance(engine, Mapping) else {"": engine}
        self._limits = limits or RolloutLimits()
        self._seed = seed
        self._lock = threading.Condition()
        self._version = max(item.version for item in self._engines.values())
        self._next = 0
        self._open: set[int] = set()
        """Requested episodes that have not ended, by number."""
        self._waiting: list[_Task] = []
        limits = self._limits
        self._admissions = {
            True: Admission(None, limits.batch, limits.max_concurrent),
            False: Admission(limits.staleness, limits.batch, limits.max_concurrent),
        }
        """Running and accepted episodes, by whether they are of evaluation."""
        self._failed = 0
        """Failed episodes since the last successful one."""
        self._error = ""
        """Exception of the last failed episode."""
        self._ended: list[_Task] = []
        """Accepted episodes that are not yet fetched, in the order of their end."""
        self._paused = False
        self._gate = Gate()
        """Closed while generation is paused, and while weights change."""
        self._generation_paused = False
        self._batcher = RequestBatcher(self._limits.window, threads=1)
        self._generators = {role: self._generator(item) for role, item in self._engines.items()}
        self._outside_episodes = self._running_episode(-1)
        """For calls outside episodes."""
        self._episodes: TaskScope | None = None

    def __enter__(self) -> Self:
        self.initialize()
        return self

    def __exit__(self, *error: object) -> None:
        self.destroy()

    def initialize(self) -> None:
        """Accept episodes."""
        self._episodes = TaskScope()

    def destroy(self) -> None:
        """End all running episodes and generation."""
        self._gate.end("the engine was destroyed")
        if self._episodes is not None:
            self._episodes.end().result()
            self._episodes = None
        self._gate.close()  # the last generation has ended
        self._batcher.close()

    # Called by workflows.

    async def agenerate(self, request: ModelRequest) -> ModelResponse:
        """One answer. If weights change during it, it continues with the new ones. Raises EngineFailure.

        For workflows; from another event loop only while no episode is running.
        """
        started = time.time()
        playing = RUNNING_EPISODE.get(self._outside_episodes)
        role = str(request.metadata.get("role") or next(iter(self._engines)))
        if role not in self._engines:
            raise EngineFailure(f"there is no role {role!r}; roles are {', '.join(self._engines)}")
        settings, ids = settings_from(request.gconfig), token_ids_of(request.input_ids)
        key = playing.noise.key(list(self._engines).index(role), ids)
        prompt = Prompt(ids, 1, key, rid=request.rid)
        (answer,) = await self._batcher.generate_answers(role, self._generators[role], prompt, settings)
        response = ModelResponse(
            list(ids),
            answer.token_ids,
            answer.logprobs,
            answer.versions,
            answer.stop_reason,
            time.time() - started,
        )
        playing.responses.append((role, response))
        return response

    # Called by trainers.

    def submit(
        self,
        data: dict[str, Any],
        workflow: RolloutWorkflow | str | None = None,
        workflow_builder: Callable[[], RolloutWorkflow] | None = None,
        should_accept: ShouldAccept | None = None,
        *,
        workflow_kwargs: Mapping[str, Any] | None = None,
        group_size: int = 1,
        is_eval: bool = False,
    ) -> int:
        """Request an episode; return its number. It starts when a slot is free; an evaluation's episode ignores the
        bound on staleness.

        `workflow` may be an import path, constructed with `workflow_kwargs`. `group_size` episodes are played on the
        row and returned as one result. Raises ValueError without a workflow.
        """
        make = workflow_factory(workflow, workflow_builder, workflow_kwargs, group_size)
        with self._lock:
            task = _Task(self._next, data, make, should_accept, is_eval)
            self._next += 1
            self._open.add(task.number)
            self._waiting.append(task)
        self._dispatch()
        return task.number

    def wait(self, count: int, timeout: float | None = None) -> list[EpisodeResult]:
        """`count` accepted episodes, in the order of requests. A failed episode is rejected and logged.

        Raises TimeoutError, keeping finished episodes; EnvironmentFailure if episodes have failed and no running one
        can fill the count, or if too many fail in a row.
        """
        with self._lock:
            if not self._lock.wait_for(
                lambda: len(self._ended) >= count or self._is_hopeless(count), timeout
            ):
                raise TimeoutError(f"{len(self._ended)} of {count} episodes had ended after {timeout} s")
            if len(self._ended) < count:
                failed, self._failed = self._failed, 0
                raise EnvironmentFailure(
                    f"{len(self._ended)} of {count} episodes were accepted, and the last {failed} failed: {self._error}"
                )
            return self._fetch(self._ended[:count])

    def wait_for_task(self, number: int, timeout: float | None = None) -> EpisodeResult:
        """The result of the episode with this number from `submit`; None if it was rejected or failed. Raises TimeoutError."""
        with self._lock:
            if not self._lock.wait_for(lambda: number not in self._open, timeout):
                raise TimeoutError(f"episode {number} had not ended after {timeout} s")
            results = self._fetch([task for task in self._ended if task.number == number])
        return results[0] if results else None

    def rollout_batch(self, data: Sequence[dict[str, Any]], *workflow: Any, **options: Any) -> Trajectory:
        """Play an episode on each row and wait for all; one padded batch. It does not contain rejected rows.

        Further arguments are those of `submit`. Raises EnvironmentFailure if every row failed.
        """
        numbers = {self.submit(row, *workflow, **options) for row in data}
        with self._lock:
            self._lock.wait_for(lambda: not numbers & self._open)
            results = self._fetch([task for task in self._ended if task.number in numbers])
            if not results and self._failed >= len(numbers) > 0:
                raise EnvironmentFailure(f"all {len(numbers)} episodes failed. One of them: {self._error}")
        return concat_padded_tensors([_tensors(result) for result in results])

    def prepare_batch(self, loader: RestartingLoader, *workflow: Any, **options: Any) -> Trajectory:
        """The next loader.batch_size accepted episodes, while later ones are already running: the asynchronous form.

        Further arguments are those of `submit`. Raises EnvironmentFailure if too many episodes fail in a row.
        """
        while True:
            while self.capacity > len(self._waiting):
                for row in next(loader):
                    self.submit(row, *workflow, **options)
            try:
                return concat_padded_tensors(
                    [_tensors(result) for result in self.wait(loader.batch_size, timeout=_POLL_SECONDS)]
                )
            except TimeoutError:
                continue

    def pause(self) -> None:
        """Start no episode until `resume`; running ones continue."""
        self._paused = True

    def resume(self) -> None:
        """Undo `pause`."""
        self._paused = False
        self._dispatch()

    def pause_generation(self) -> None:
        """Interrupt answers between two tokens; returns when the model is idle."""
        if not self._generation_paused:
            self._generation_paused = True
            self._gate.close()

    def continue_generation(self) -> None:
        """Continue them from the token at which they stopped."""
        if self._generation_paused:
            self._generation_paused = False
            self._gate.open()

    def update_weights(self, weights: Any, version: int) -> None:
        """Load weights (name -> tensor) between two tokens; running answers continue with them. Raises EngineFailure.

        For an engine shared by all roles.
        """
        (engine,) = self._engines.values()
        with self._gate.closed():
            engine.load_weights(weights, version)
        self.set_version(version)

    def get_version(self) -> int:
        """Version of the weights, which limits the admission of new episodes."""
        return self._version

    def set_version(self, version: int) -> None:
        """Set the version of the weights and start the episodes that it admits."""
        self._version = version
        self._dispatch()

    @property
    def capacity(self) -> int:
        """Number of further episodes that may start now."""
        with self._lock:
            return min(self._free, self._admissions[False].room(self._version))

    @property
    def _free(self) -> int:
        """Number of further episodes that may be played at the same time."""
        running = sum(len(admission.running) for admission in self._admissions.values())
        return self._limits.max_concurrent - running

    def _next_task(self) -> _Task | None:
        """The first waiting episode that may start."""
        if self._paused or self._free <= 0:
            return None
        admits = {kind: item.room(self._version) > 0 for kind, item in self._admissions.items()}
        return next((task for task in self._waiting if admits[task.is_eval]), None)

    def _fetch(self, tasks: list[_Task]) -> list[EpisodeResult]:
        """Results of ended episodes, in the order of requests; each is returned once."""
        self._ended = [task for task in self._ended if task not in tasks]
        return [task.result for task in sorted(tasks, key=lambda task: task.number)]

    def _dispatch(self) -> None:
        """Start the episodes that may start."""
        assert self._episodes is not None, "initialize the engine first"
        with self._lock:
            while (task := self._next_task()) is not None:
                self._waiting.remove(task)
                self._admissions[task.is_eval].start([task.number])
                self._episodes.start(self._play(task))

    def _generator(self, engine: Engine) -> Generate:
        """The engine's generate, interrupted by the gate."""

        def generate(prompts: Sequence[Prompt], settings: SamplingSettings) -> list[list[Answer]]:
            with self._gate.passing():
                return engine.generate(prompts, settings, lambda: self._gate.closing)

        return generate

    async def _play(self, task: _Task) -> None:
        RUNNING_EPISODE.set(self._running_episode(task.number))
        error = ""
        try:
            result = await task.make().arun_episode(self, task.data)
            if task.accepts is None or result is None or task.accepts(result):
                task.result = result
        except (NoReward, PromptTooLong) as reason:
            log.info("episode %d is rejected: %s", task.number, reason)
        except Exception as raised:
            error = f"{type(raised).__name__}: {raised}"
            log.warning("episode %d failed and is rejected: %s", task.number, error, exc_info=raised)
        with self._lock:
            self._end(task)
            self._failed, self._error = (self._failed + 1, error) if error else (0, self._error)
            self._lock.notify_all()
        self._dispatch()

    def _end(self, task: _Task) -> None:
        """Mark an episode as ended."""
        self._open.remove(task.number)
        if task.result is None:
            self._admissions[task.is_eval].reject([task.number])
        else:
            self._admissions[task.is_eval].accept([task.number])
            self._ended.append(task)

    def _running_episode(self, number: int) -> RunningEpisode:
        return RunningEpisode(EpisodeNoise(self._seed, NoiseStream.ROLLOUT_WORKFLOWS, 0, number))

    def _is_hopeless(self, count: int) -> bool:
        """Whether episodes failed and no running one can replace them, or too many fail in a row."""
        return self._failed > 0 and (not self._open or self._failed >= _MAX_FAILED_BATCHES * count)


def settings_from(parameters: GenerationHyperparameters) -> SamplingSettings:
    """Convert to the engines' settings. Raises EngineFailure for more than one sample."""
    if parameters.n_samples != 1:
        raise EngineFailure(
            "agenerate gives one answer", remedy="call it n_samples times, concurrently with asyncio.gather"
        )
    return SamplingSettings(
        parameters.temperature,
        parameters.top_k,
        parameters.top_p,
        parameters.max_new_tokens,
        parameters.greedy,
        tuple(parameters.stop),
    )


def _tensors(result: EpisodeResult) -> Trajectory:
    if isinstance(result, dict):
        return result
    raise TypeError("batches need tensors; for a workflow that returns interactions use `wait`")
