"""One attempt of a run: sets up the reporter, signals, backend and loop, and reports how it ended."""

import logging
import signal
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from types import FrameType

from training_core.config.effects import questionable_settings
from training_core.config.engines import with_engines
from training_core.config.files import to_toml
from training_core.config.run import is_shaped
from training_core.devices import cuda_is_visible
from training_core.importing import resolve
from training_core.loggers.registry import Loggers, LoggerSetup, enabled_loggers
from workers.driver.checkpointing import CheckpointKeeper, starting_point
from workers.driver.display import Bar, Lines
from workers.driver.loop import ENDS, End, Run, secure, train
from workers.driver.run_events import ReportedLog, RunEvents
from workers.kinds import WORKER_KINDS
from workers.protocol import (
    Attempt,
    StopChecks,
    StoppedBeforeStart,
    Superseded,
    TrainingBackend,
    WorkerLost,
)
from workers.reporting.reporter import Reporter
from workers.sizing.placement import refuse_evaluator, refuse_gpus, requested_gpus
from workers.storage.folders import RunFolder
from workers.telemetry.faults import FAILURE, LOST, fault_of, has_traceback
from workers.telemetry.output import reported_output

log = logging.getLogger(__name__)
FAILED, SUPERSEDED = 1, 3
DELIVERY_SECONDS = 20.0
"""Maximum seconds that an ending attempt waits for the server to accept the last events. The events are on disk in any case."""


class StopSignal:
    """Stop requests to the attempt: from the server through the reporter, or by SIGTERM (stop immediately)."""

    def __init__(self, reporter: Reporter) -> None:
        self._reporter = reporter
        self._signalled = False
        self._former = signal.getsignal(signal.SIGTERM)
        self.secure: Callable[[], None] | None = None
        """Writes a checkpoint of the last completed iteration; None until the loop exists."""

    def __call__(self) -> str | None:
        """ "stop", "pause" or None. Raises Superseded if a newer attempt exists."""
        command = self._reporter.command
        if command == "exit":
            raise Superseded
        return command or ("stop" if self._signalled else None)

    @property
    def stop_checks(self) -> StopChecks:
        """The checks that a backend calls while it waits."""
        return StopChecks(
            self._starting,
            self._running,
            stop_requested=lambda: self() is not None,
            collecting=self._collecting,
            evaluating=self._evaluating,
            must_end_now=lambda: self._signalled,
        )

    def _running(self) -> None:
        self()

    def _collecting(self) -> None:
        if self.secure is not None and self():
            self.secure()

    def _evaluating(self) -> None:
        if self._signalled:
            self._collecting()

    def _starting(self) -> None:
        command = self()
        if command:
            raise StoppedBeforeStart(command)

    def listen(self) -> None:
        """Handle SIGTERM as a request to stop immediately. Ray installs its own handler when it connects: call this again afterwards."""
        signal.signal(signal.SIGTERM, self._on_signal)

    def forget(self) -> None:
        """Restore the previous SIGTERM handler."""
        signal.signal(signal.SIGTERM, self._former)

    def end_now(self) -> None:
        """Handle a request to stop immediately."""
        self._signalled = True

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        self.end_now()


def reporter_of(attempt: Attempt) -> Reporter:
    """The attempt's reporter, in its run folder with its config."""
    folder = RunFolder(attempt.folder)
    folder.root.mkdir(parents=True, exist_ok=True)
    if not folder.config.exists():
        folder.config.write_text(to_toml(attempt.config))
    return Reporter(folder, attempt.run, attempt.number, attempt.ingest_url, attempt.ingest_token)


def run_attempt(attempt: Attempt, *, local: bool) -> int:
    """Run the attempt and return the exit status. Every outcome is reported, except that of a superseded attempt."""
    reporter, level = reporter_of(attempt), attempt.config.reporting.log_level
    config, engines = with_engines(attempt.config)
    attempt = replace(attempt, config=config, engines=engines)
    with reported_logging(level, ReportedLog(reporter, level)):
        shown = (
            Bar(attempt.config.run.iterations, is_shaped(attempt.config.model_dump(mode="json")))
            if local and sys.stderr.isatty()
            else Lines()
        )
        with shown as display:
            run_events = RunEvents(attempt.config, reporter, display)
            stop_signal = StopSignal(reporter)
            make = partial(_backend, attempt, run_events, stop_signal, local=local)
            with reported_output(run_events.output):
                status = guarded_attempt(attempt, run_events, stop_signal, make)
            stop_signal.forget()
    if status != SUPERSEDED:
        reporter.close(DELIVERY_SECONDS)
    return status


def guarded_attempt(
    attempt: Attempt, run_events: RunEvents, stop_signal: StopSignal, make: Callable[[], TrainingBackend]
) -> int:
    """Run the attempt with the backend of `make`. An exception becomes a status event and an exit status."""
    try:
        end = _run(attempt, run_events, stop_signal, make)
    except Superseded:
        log.warning("a newer attempt of this run exists; this attempt ends now")
        return SUPERSEDED
    except StoppedBeforeStart as stop:
        run_events.ended(ENDS[stop.command], run_events.completed_iterations, "stopped before it had started")
        return 0
    except KeyboardInterrupt:
        run_events.ended("stopped", run_events.completed_iterations, "interrupted at the terminal")
        return 0
    except Exception as error:
        if has_traceback(error):
            log.error("%s", traceback.format_exc())
        fault = fault_of(error)
        retry = isinstance(error, WorkerLost)  # any other error would be raised again
        run_events.failed(fault, retry=retry)
        run_events.note(f"{LOST if retry else FAILURE}{fault.printed}")
        return FAILED
    run_events.ended(end.state, end.iterations, end.reason)
    reason = f" ({end.reason})" if end.reason else ""
    run_events.note(f"{end.state} after {end.iterations} iterations{reason}; run folder {attempt.folder}")
    return 0


def _run(
    attempt: Attempt, run_events: RunEvents, stop_signal: StopSignal, make: Callable[[], TrainingBackend]
) -> End:
    run_events.starting(attempt.start_from, attempt.engines)
    for setting in questionable_settings(attempt.config):
        log.warning("%s", setting)
    run_events.loggers = loggers = _loggers(attempt)
    try:
        start_from = starting_point(attempt, run_events)
        keeper = CheckpointKeeper(attempt.config, RunFolder(attempt.folder))
        backend = make()
        stop_signal.listen()
        try:
            run = Run(attempt.config, backend, run_events, keeper, stop_signal)
            stop_signal.secure = partial(secure, run)
            return train(run, start_from, forks=attempt.forks)
        finally:
            backend.close()
    finally:
        loggers.close()


def _loggers(attempt: Attempt) -> Loggers:
    """Loggers that also write the metrics to other places. Raises ConfigError if a package is missing."""
    config = attempt.config
    plain = f"{config.algorithm.type}_{config.environment.type}_s{config.run.seed}"
    opening = LoggerSetup(
        folder=attempt.folder,
        project=config.reporting.project,
        run=attempt.run,
        name=config.run.name or plain,
        config=config.model_dump(mode="json"),
        fields=config.reporting.model_dump(),
    )
    return Loggers(enabled_loggers(config.reporting), opening)


def _backend(
    attempt: Attempt, run_events: RunEvents, stop_signal: StopSignal, *, local: bool
) -> TrainingBackend:
    """Workers in this process or on Ray. The imports are slow, so only the needed one is made.

    Raises ConfigError if GPUs are requested and this machine, or a cluster of this machine alone, has none.
    """
    stop_checks = replace(stop_signal.stop_checks, waiting=run_events.waits)
    if local:
        refuse_evaluator(attempt.config)
        if requested_gpus(attempt.config) and not cuda_is_visible():
            refuse_gpus(attempt.config, "this machine")
        make = resolve(WORKER_KINDS[attempt.config.agents].local_backend)
        backend: TrainingBackend = make(attempt, attempt.config, stop_checks, run_events.loading)
        return backend
    from workers.driver.ray_backend import RayBackend

    return RayBackend(
        attempt,
        stop_checks,
        run_events.note,
        run_events.waiting,
        run_events.output.lines,
    )


@contextmanager
def reported_logging(level: str, *reported: ReportedLog) -> Iterator[None]:
    """Send log records to stderr and to the runs' logs."""
    root = logging.getLogger()
    handlers: list[logging.Handler] = [logging.StreamHandler(), *reported]
    handlers[0].setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    before = root.level
    root.setLevel(level.upper())
    for handler in handlers:
        root.addHandler(handler)
    try:
        yield
    finally:
        root.setLevel(before)
        for handler in handlers:
            root.removeHandler(handler)
