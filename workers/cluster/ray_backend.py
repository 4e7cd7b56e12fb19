"""RayBackend: a run on Ray. Sends each call to the lead actor, and polls for stop requests while it waits."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar

import ray
from ray.exceptions import RayActorError

from training_core.config.rollout import RolloutBuffer
from training_core.errors import StopRequested, TroupeError
from training_core.llm.base_models.folder_creation import Progress, creation_progress, silent
from training_core.llm.base_models.registry import created_folder
from workers.cluster.answers import LOST_REMEDY, answer, exit_of
from workers.cluster.session import Session, cluster_machines, connect, open_session
from workers.cluster.worker_output import Heard, WorkerOutput
from workers.gateway.opening import announce, retract
from workers.protocol.records import (
    Attempt,
    Collected,
    EpisodeKind,
    Span,
    Started,
    StopCheck,
    StopChecks,
    System,
    TrainingBackend,
    Updated,
    WorkerLost,
)
from workers.storage.shared_folder import check_mark, marked

POLL_SECONDS = 0.5
Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


class RayBackend(TrainingBackend):
    """A typed stub of the lead actor: the coordinator, or the trainer of small networks. Imports no torch."""

    def __init__(
        self,
        attempt: Attempt,
        stop_checks: StopChecks,
        log_line: Callable[[str], None],
        waiting: Progress = silent,
        heard: Heard | None = None,
    ) -> None:
        """`log_line` gets messages about missing devices, `waiting` the progress of a base model, `heard` the workers' output."""
        self._attempt = attempt
        self._stop_checks = stop_checks
        self._log_line = log_line
        self._waiting = waiting
        self._reported: tuple[float, str] | None = None
        self._session: Session | None = None
        self._at_start: Started | None = None
        self._first_calls: list[Any] = []
        """Calls that end when a worker has been constructed and has read the run's folder, or when it has failed to."""
        workflow = getattr(attempt.config, "workflow", None)
        self._external = isinstance(workflow, RolloutBuffer)
        """Whether the run may wait for external rollouts."""
        connect(attempt.config)
        self._output = WorkerOutput(f"{attempt.run}-{attempt.number}", heard) if heard else None
        if self._output:
            self._output.open()

    def start(self, resume_from: Path | None) -> Started:
        """Wait for devices, then start all workers.

        Raises StoppedBeforeStart, Superseded, WorkerLost, and FolderNotShared if a worker does not see the run's folder.
        """
        self._session = open_session(self._attempt, self._stop_checks.starting, self._log_line)
        with marked(self._attempt.folder) as mark:
            self._first_calls = [
                worker.__ray_call__.remote(check_mark, mark) for worker in self._session.actors
            ]
            try:
                self._at_start = self._call(self._check_starting, TrainingBackend.start, resume_from)
            except (TroupeError, OSError):
                self._check_first_calls()  # a node without the folder does not have its models either
                raise
            while self._first_calls:
                self._stop_checks.starting()
                self._check_first_calls(POLL_SECONDS)
        announce(self._at_start, self._attempt.folder)
        return replace(self._at_start, machines=cluster_machines())

    def play_ahead(self, completed: int, admission: dict[str, Any] | None) -> None:
        self._call(self._stop_checks.running, TrainingBackend.play_ahead, completed, admission)

    def collect(self, iteration: int) -> Collected:
        return self._call(self._check_collecting, TrainingBackend.collect, iteration)

    def update(self, iteration: int) -> Updated:
        return self._call(self._stop_checks.running, TrainingBackend.update, iteration)

    def publish(self, iteration: int) -> list[Span]:
        return self._call(self._stop_checks.running, TrainingBackend.publish, iteration)

    def evaluate(self, iteration: int, kind: EpisodeKind, episodes: int) -> Collected:
        return self._call(self._check_evaluating, TrainingBackend.evaluate, iteration, kind, episodes)

    def system(self) -> System:
        return self._call(self._stop_checks.running, TrainingBackend.system)

    def save(self, folder: Path) -> None:
        """Write a checkpoint, possibly while another call is running."""
        assert self._session is not None, "start comes first"
        self._wait(self._session.control("save", folder), self._stop_checks.running)

    def close(self) -> None:
        """End all workers and free the devices."""
        retract(self._at_start, self._attempt.folder)
        if self._session is not None:
            self._session.close()
            self._session = None
        if self._output is not None:
            self._output.close()
            self._output = None

    def _call(
        self,
        stop_check: StopCheck,
        method: Callable[Concatenate[TrainingBackend, Parameters], Result],
        *arguments: Parameters.args,
        **options: Parameters.kwargs,
    ) -> Result:
        """Call a method of the lead actor. Raises WorkerLost, and what the method or `stop_check` raises."""
        assert self._session is not None, "start comes first"
        remote = getattr(self._session.lead, method.__name__).remote
        result: Result = self._wait(remote(*arguments, **options), stop_check)
        return result

    def _wait(self, reference: Any, stop_check: StopCheck) -> Any:
        """The result of a call; `stop_check` is called every POLL_SECONDS until it is available."""
        while not ray.wait([reference], timeout=POLL_SECONDS)[0]:
            stop_check()
        try:
            return answer(reference)
        except RayActorError as error:
            raise WorkerLost(
                f"the process that leads the run died: {exit_of(error)}. {LOST_REMEDY}"
            ) from error

    def _check_starting(self) -> None:
        """Report the progress of base models, if the data folder is on this machine.

        Raises Superseded, StoppedBeforeStart, and what the first calls raised: before large models are loaded.
        """
        self._stop_checks.starting()
        self._check_first_calls()
        config = self._attempt.config
        for name in dict.fromkeys(config.models.values()):
            folder = created_folder(name, config.environment, self._attempt.home)
            progress = creation_progress(folder) if folder else None
            if progress and progress != self._reported:
                self._reported = progress
                self._waiting(*progress)

    def _check_first_calls(self, seconds: float = 0.0) -> None:
        """Wait for the first calls. Raises FolderNotShared, and what a worker's constructor raised."""
        if not self._first_calls:
            return
        ended, self._first_calls = ray.wait(
            self._first_calls, num_returns=len(self._first_calls), timeout=seconds
        )
        for reference in ended:
            with suppress(RayActorError):  # a worker that died is replaced when it is called
                answer(reference)

    def _check_collecting(self) -> None:
        """Raises Superseded, StopRequested."""
        self._stop_checks.running()
        self._stop_checks.collecting()
        if self._stop_checks.must_end_now():
            raise StopRequested("asked to end at once")
        self._abandon_external()

    def _check_evaluating(self) -> None:
        """Raises Superseded."""
        self._stop_checks.running()
        self._stop_checks.evaluating()
        self._abandon_external()

    def _abandon_external(self) -> None:
        if self._external and self._stop_checks.stop_requested():
            assert self._session is not None
            self._session.control("abandon_external")
