"""Several runs that differ in their seed only, in one process: each with its own folder, events, checkpoints and end."""

import logging
import os
import signal
import time
import traceback
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from threading import Condition, Event, Lock, Thread, current_thread
from types import FrameType
from typing import TYPE_CHECKING, Any

from training_core.config.marl import MarlConfig
from training_core.marl.records import Collection
from workers.actors.machine import prepare_process
from workers.driver.attempt import (
    DELIVERY_SECONDS,
    FAILED,
    SUPERSEDED,
    StopSignal,
    guarded_attempt,
    reported_logging,
    reporter_of,
)
from workers.driver.display import Lines
from workers.driver.local_backends import LocalNetworksBackend
from workers.driver.run_events import ReportedLog, RunEvents
from workers.protocol import Attempt, StopChecks, TrainingBackend
from workers.telemetry.faults import LOST, fault_of, seed_mark
from workers.telemetry.output import reported_output

if TYPE_CHECKING:
    from training_core.marl.trainer import MarlTrainer

log = logging.getLogger(__name__)
POLL_SECONDS = 0.5
"""Seconds between checks whether the server has stored the events of an ended seed."""


class SeedTurns:
    """The shared trainers. The threads of its runs work in turn, each inside `turn`; an iteration is played for all of them
    together once every run that has not left waits for its own.
    """

    def __init__(self, configs: Sequence[MarlConfig]) -> None:
        """Raises ConfigError if the seeds cannot be trained together."""
        prepare_process(configs[0].resources.threads)
        from training_core.marl.seed_group import SeedGroup  # imports torch

        self.group = SeedGroup(configs)
        self.turn = Lock()
        self._changed = Condition(self.turn)
        self.over = Event()
        """Set when all runs have left."""
        self._present = set(range(len(configs)))
        self._waiting: dict[int, int] = {}
        """Iteration by run."""
        self._played: dict[int, Any] = {}
        """By run: (rollout, episodes, start, seconds), or the exception that play raised."""

    def play(self, index: int, iteration: int) -> tuple[Collection, float, float]:
        """Play an iteration of a run, inside `turn`: its episodes, when play began, and its seconds. Raises EnvironmentFailure."""
        self._waiting[index] = iteration
        self._play_if_complete()
        self._changed.wait_for(lambda: index in self._played)
        played = self._played.pop(index)
        if isinstance(played, Exception):
            raise played
        (rollout, episodes), start, seconds = played
        return self.group.trainers[index].accept(rollout, episodes), start, seconds

    def leave(self, index: int) -> None:
        """End a run, inside `turn`: the others no longer wait for it."""
        self._present.discard(index)
        if not self._present:
            self.over.set()
        self._play_if_complete()

    def _play_if_complete(self) -> None:
        if not self._present or self._waiting.keys() != self._present:
            return
        start = time.time()
        iterations = {index: self._waiting[index] for index in sorted(self._waiting)}
        self._waiting.clear()
        try:
            played = self.group.play(iterations)
            seconds = time.time() - start
            self._played.update({index: (own, start, seconds) for index, own in played.items()})
        except Exception as error:
            self._played.update(dict.fromkeys(iterations, error))
        self._changed.notify_all()


class SeedBackend(LocalNetworksBackend):
    """The backend of one of the runs."""

    def __init__(
        self, attempt: Attempt, config: MarlConfig, stop_checks: StopChecks, turns: SeedTurns, index: int
    ) -> None:
        super().__init__(attempt, config, stop_checks, lambda done, text: None)
        self._shared, self._index = turns, index

    def _make_trainer(self) -> "MarlTrainer":
        return self._shared.group.trainers[self._index]

    def _play(self, iteration: int) -> tuple[Collection, float, float]:
        return self._shared.play(self._index, iteration)


class SeedLines(Lines):
    """The lines of one seed's log, marked with its seed."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self._seed = seed

    def note(self, text: str) -> None:
        """Print one line."""
        super().note(f"{seed_mark(self._seed)}{text}")


class SeedStopSignal(StopSignal):
    """Stop requests to one seed's attempt. Signals reach the main thread, which passes them to all seeds."""

    def listen(self) -> None:
        """Do nothing."""

    def forget(self) -> None:
        """Do nothing."""


class SeedRun:
    """One seed's attempt and its thread."""

    def __init__(self, attempt: Attempt, index: int, turns: SeedTurns) -> None:
        self._attempt, self._index, self._turns = attempt, index, turns
        self._config: Any = attempt.config
        self._reporter = reporter_of(attempt)
        self.events = RunEvents(attempt.config, self._reporter, SeedLines(attempt.config.run.seed))
        self.stop_signal = SeedStopSignal(self._reporter)
        self.status = FAILED
        self.thread = Thread(target=self._work, name=attempt.run)
        self.log = ReportedLog(self._reporter, attempt.config.reporting.log_level)
        self.log.addFilter(lambda record: (record.threadName or "").partition("/")[0] == attempt.run)

    def _work(self) -> None:
        with self._turns.turn:
            try:
                self.status = guarded_attempt(self._attempt, self.events, self.stop_signal, self._backend)
            finally:
                self._turns.leave(self._index)
        self._close()

    def _close(self) -> None:
        """Deliver the last events and end the heartbeats, while other seeds may continue.

        As long as they do, it waits for a server that does not answer: nobody else delivers the final status before the
        process ends.
        """
        self.events.output.close()
        superseded, last = self.status == SUPERSEDED, self._reporter.seq
        while not (superseded or self._reporter.has_stored(last) or self._turns.over.is_set()):
            self._turns.over.wait(POLL_SECONDS)
        self._reporter.close(0.0 if superseded else DELIVERY_SECONDS)

    def _backend(self) -> TrainingBackend:
        checks = self.stop_signal.stop_checks
        return SeedBackend(self._attempt, self._config, checks, self._turns, self._index)


class OutputByThread:
    """Lines of the process, reported in the log of the run whose thread wrote them."""

    def __init__(self, runs: Sequence[SeedRun]) -> None:
        self._outputs = {run.thread: run.events.output for run in runs}

    def lines(self, source: str, stream: str, lines: Iterable[str]) -> None:
        """Report lines; those of other threads are only printed."""
        if output := self._outputs.get(current_thread()):
            output.lines(source, stream, lines)

    def close(self) -> None:
        """Report the last lines."""
        for output in self._outputs.values():
            output.close()


def run_seeds(attempts: Sequence[Attempt]) -> int:
    """Run all attempts and return 1 if one failed. Raises ConfigError if they cannot share a process.

    A seed that stops or fails has its own last checkpoint, and the others continue. SIGTERM and an interrupt at the
    terminal stop all of them, with a checkpoint of the last completed iteration.
    """
    configs: list[Any] = [attempt.config for attempt in attempts]
    turns = SeedTurns(configs)
    runs = [SeedRun(attempt, index, turns) for index, attempt in enumerate(attempts)]
    with ExitStack() as stack:
        stack.callback(turns.group.close)
        level = attempts[0].config.reporting.log_level
        stack.enter_context(reported_logging(level, *[run.log for run in runs]))
        stack.enter_context(reported_output(OutputByThread(runs)))
        _stop_all_on_signals(runs, stack)
        for run in runs:
            run.thread.start()
        for run in runs:
            run.thread.join()
    return max([run.status for run in runs if run.status != SUPERSEDED], default=SUPERSEDED)


def run_members(attempts: Sequence[Attempt]) -> int:
    """`run_seeds` for the job of a server. Reports a failure before the start to every run: each may succeed in a process of
    its own.
    """
    try:
        return run_seeds(attempts)
    except Exception as error:
        log.error("%s", traceback.format_exc())
        fault = fault_of(error)
        for attempt in attempts:
            reporter = reporter_of(attempt)
            events = RunEvents(attempt.config, reporter, SeedLines(attempt.config.run.seed))
            events.failed(fault, retry=True)
            events.note(f"{LOST}{fault.printed}")
            reporter.close(DELIVERY_SECONDS)
        return FAILED


def _stop_all_on_signals(runs: Sequence[SeedRun], stack: ExitStack) -> None:
    requests: list[int] = []

    def stop(number: int, frame: FrameType | None) -> None:
        requests.append(number)
        if requests.count(signal.SIGINT) > 1:
            os._exit(128 + signal.SIGINT)
        log.info("all seeds stop after this iteration; press Ctrl-C again to end without a checkpoint")
        for run in runs:
            run.stop_signal.end_now()

    for number in (signal.SIGTERM, signal.SIGINT):
        stack.callback(signal.signal, number, signal.signal(number, stop))
