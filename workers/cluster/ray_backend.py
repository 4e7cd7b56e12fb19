"""The backend of a run on Ray: forwards each call to the coordinator's process and polls for a stop request while it waits."""

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ray
from ray.exceptions import RayActorError

from training_core.config.rollout import RolloutBuffer
from training_core.config.run import RunConfig
from training_core.errors import StopRequested
from training_core.llm.base_models.folder_creation import creation_progress
from training_core.llm.base_models.progress import Progress, silent
from training_core.llm.base_models.registry import created_folder
from workers.cluster.answers import answer, exit_of
from workers.cluster.session import Session, connect, open_session
from workers.gateway.announcing import announce
from workers.protocol.records import (
    Attempt,
    Collected,
    EpisodeKind,
    Span,
    Started,
    StopCheck,
    StopChecks,
    System,
    Updated,
    WorkerLost,
)

log = logging.getLogger(__name__)
POLL = 0.5
"""Seconds between looks at whether the attempt was superseded."""


class RayBackend:
    """Imports no torch: what arrives here is plain lists."""

    def __init__(
        self,
        attempt: Attempt,
        stop_checks: StopChecks,
        say: Callable[[str], None],
        waiting: Progress = silent,
    ) -> None:
        self._attempt = attempt
        self._stop_checks = stop_checks
        self._stop_check = stop_checks.starting
        self._say = say
        self._waiting = waiting
        """Told how far the base model is while the run waits for it."""
        self._told: tuple[float, str] | None = None
        self._session: Session | None = None
        workflow = getattr(attempt.config, "workflow", None)
        self._waits = isinstance(workflow, RolloutBuffer)
        """Whether it may have to wait for others outside."""
        connect()

    def start(self, resume_from: Path | None) -> Started:
        """Waits for devices first, saying for what."""
        label = f"{self._attempt.run}-{self._attempt.number}"
        config, home = self._attempt.config, self._attempt.home
        self._session = open_session(config, home, label, self._stop_check, self._say)
        self._stop_check = self._look_starting
        started: Started = self._ask("start", self._attempt.number, resume_from)
        announce(started, self._attempt.folder)
        self._stop_check = self._stop_checks.running
        return started

    def _look_starting(self) -> None:
        """What is done while the workers start. Where the data folder is not on this machine, nothing is told."""
        self._stop_checks.starting()
        config = self._attempt.config
        if not isinstance(config, RunConfig):
            return
        for name in dict.fromkeys(config.policies[policy].model for policy in config.used_policies):
            folder = created_folder(name, config.environment, self._attempt.home)
            now = creation_progress(folder) if folder else None
            if now and now != self._told:
                self._told = now
                self._waiting(*now)

    def play_ahead(self, completed: int, admission: dict[str, Any] | None) -> None:
        self._ask("play_ahead", completed, admission)

    def collect(self, iteration: int) -> Collected:
        collected: Collected = self._ask("collect", iteration, meanwhile=self._collecting)
        return collected

    def _collecting(self) -> None:
        """What is done while tasks are played. Raises Superseded, StopRequested."""
        self._stop_checks.running()
        self._stop_checks.collecting()
        if self._stop_checks.must_end_now():
            raise StopRequested("asked to end at once")
        self._leave_others()

    def _evaluating(self) -> None:
        """What is done while held-out tasks are played. Raises Superseded."""
        self._stop_checks.running()
        self._stop_checks.evaluating()
        self._leave_others()

    def _leave_others(self) -> None:
        if self._waits and self._stop_checks.stop_requested():
            assert self._session is not None
            self._session.control("leave")

    def update(self, iteration: int) -> Updated:
        updated: Updated = self._ask("update", iteration)
        return updated

    def publish(self, iteration: int) -> list[Span]:
        spans: list[Span] = self._ask("publish", iteration)
        return spans

    def evaluate(self, iteration: int, kind: EpisodeKind, episodes: int) -> Collected:
        collected: Collected = self._ask("evaluate", iteration, kind, episodes, meanwhile=self._evaluating)
        return collected

    def save(self, folder: Path) -> None:
        assert self._session is not None, "start comes first"
        self._wait(self._session.control("save", folder))

    def system(self) -> System:
        system: System = self._ask("system")
        return system

    def close(self) -> None:
        if self._session is not None:
            self._session.close()
            self._session = None

    def _ask(self, method: str, *arguments: Any, meanwhile: StopCheck | None = None) -> Any:
        """Call who leads. `meanwhile` is called while it works. Raises WorkerLost, and what the method raises."""
        assert self._session is not None, "start comes first"
        return self._wait(getattr(self._session.lead, method).remote(*arguments), meanwhile)

    def _wait(self, reference: Any, meanwhile: StopCheck | None = None) -> Any:
        """The answer; until it is there, look whether this attempt must leave."""
        while not ray.wait([reference], timeout=POLL)[0]:
            (meanwhile or self._stop_check)()
        try:
            return answer(reference)
        except RayActorError as error:
            raise WorkerLost(
                f"The process that leads the run died: {exit_of(error)}. A new attempt starts from the last checkpoint."
            ) from error
