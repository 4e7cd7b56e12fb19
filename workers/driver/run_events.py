"""Reports the driver's progress and unusually long phases as events, and stores the counters that a checkpoint needs."""

import logging
import os
import time
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from math import isfinite, nan
from pathlib import Path
from statistics import median
from typing import Any

from training_core.config.experiment import ExperimentConfig
from training_core.config.run import is_shaped
from training_core.importing import resolve
from training_core.loggers.registry import Loggers
from workers.driver.display import Display, checkpoint_line, evaluation_line, iteration_line, model_line
from workers.kinds import WORKER_KINDS
from workers.protocol import Collected, Phase, Span, Started, System, Updated
from workers.provenance.collecting import attempt_provenance, package_versions
from workers.reporting.reporter import Reporter
from workers.telemetry import metrics
from workers.telemetry.faults import Fault, log_text, plain
from workers.telemetry.output import LEVEL as OUTPUT
from workers.telemetry.output import ProcessOutput

FACTOR, LEAST = 3.0, 1.0
"""A phase is slow if it takes FACTOR times the median and LEAST seconds more than it."""
ENOUGH, WINDOW = 5, 50
"""Minimum number of earlier durations, and the number of latest ones that the median is of."""
MOST = 200
"""Maximum number of lines of one attempt."""
WAITS_SECONDS = 2.0
"""Seconds between reports of what a run waits for."""
log = logging.getLogger(__name__)
MOST_LINES = 1000
"""Maximum number of iterations with a line in the run's log; of more, every n-th has one."""


class SlowPhases:
    """Compares each phase's duration with the median of its own."""

    def __init__(self) -> None:
        self._seconds: dict[str, deque[float]] = {}
        self._lines = 0

    def line(self, iteration: int, phase: str, seconds: float) -> str:
        """Add a duration. Returns a line for the run's log if the phase was slow, otherwise an empty one."""
        earlier = self._seconds.setdefault(phase, deque(maxlen=WINDOW))
        usual = median(earlier) if len(earlier) >= ENOUGH else seconds
        earlier.append(seconds)
        if seconds < FACTOR * usual or seconds < usual + LEAST or self._lines >= MOST:
            return ""
        self._lines += 1
        return f"slow {phase} in iteration {iteration}: {seconds:.1f} s, its median is {usual:.1f} s"


class RunEvents:
    """Converts results of the backend to events; counts progress; stores the latest metrics."""

    def __init__(self, config: ExperimentConfig, reporter: Reporter, display: Display) -> None:
        self._config = config
        self._shaped = is_shaped(config.model_dump(mode="json"))
        self._summary_lines = WORKER_KINDS[config.agents].summary_lines
        self._line_every = -(-config.run.iterations // MOST_LINES)
        self._reporter = reporter
        self._display = display
        self._began = time.time()
        self._sampled = 0.0
        self.output = ProcessOutput(self._output)
        """Reports what processes write to stdout and stderr."""
        self.progress = metrics.Progress()
        self.latest: dict[str, float] = {}
        """Last value of every metric."""
        self._slow_phases = SlowPhases()
        self._steps: dict[str, int] = {}
        """Step of that value, by metric."""
        self._headlines: dict[int, dict[str, float]] = {}
        """Metrics that were reported with the checkpoints on disk, by iteration, if evaluations follow later."""
        self._waits, self._waits_told = "", 0.0
        """What was last told that the run waits for, and when."""
        self.loggers: Loggers | None = None
        """Write the metrics to other places too."""

    @property
    def command(self) -> str | None:
        """The server's command: "stop", "pause", "exit" or None."""
        return self._reporter.command

    @property
    def completed_iterations(self) -> int:
        """Number of completed iterations."""
        return self._reporter.iteration

    def starting(self, resume_from: Path | None, engines: Mapping[str, str]) -> None:
        """The driver has started and parsed its config, and chosen an engine for each policy in `engines`."""
        name = resume_from.name if resume_from else None
        facts = {
            "packages": package_versions(),
            "resumed_from": name,
            "resume_note": "",
            "origin_damaged": "",
        }
        facts |= _provenance(self._config, engines)
        self._reporter.status("starting", 0, "Starting workers", facts=facts)
        self._log(f"starting from the checkpoint {name}" if name else "starting without a checkpoint")
        for policy, chosen in engines.items():
            self._log(f"engine of {policy}: {chosen}")

    def damaged(self, iteration: int, path: str, problem: str) -> None:
        """A checkpoint of this run is damaged; path relative to the run folder."""
        self._reporter.checkpoint(iteration, path, 0, {}, damaged=problem)
        self._log(f"the checkpoint of iteration {iteration} is damaged: {problem}", "error")

    def origin_damaged(self, problem: str) -> None:
        """The other run's checkpoint that this run starts from is damaged."""
        self._reporter.status("starting", 0, "", facts={"origin_damaged": problem})

    def fell_back(self, checkpoint: Path, text: str) -> None:
        """The attempt resumes from an earlier checkpoint than requested; `text` gives the reason."""
        self._log(text, "warning")
        facts = {"resumed_from": checkpoint.name, "resume_note": text}
        self._reporter.status("starting", 0, "Starting workers", facts=facts)

    def resumed_at(self, iteration: int) -> None:
        """Earlier attempts completed `iteration` iterations."""
        self._reporter.iteration = iteration

    def running(self, started: Started, iteration: int) -> None:
        """All workers have started."""
        facts: dict[str, Any] = {"base_models": started.base_models}
        if started.machines:
            facts["provenance"] = {"cluster": started.machines}
        if started.gateway is not None:
            facts["gateway"] = started.gateway["url"]
            log.info(
                "agents reach the policies at %s; external agents find the token in gateway.json in the run's folder",
                started.gateway["url"],
            )
        self._reporter.status("running", iteration, facts=facts)
        for policy, model in started.base_models.items():
            self._log(model_line(policy, model))
        self._log(f"all workers have started after {time.time() - self._began:.1f} s")
        self._spans(started.spans)

    def collected(self, iteration: int, collected: Collected) -> None:
        """Episodes were played; reported before the update."""
        self.progress.add(collected.facts, collected.env_steps)
        values = metrics.train_metrics(collected) | self.progress.metrics()
        values |= metrics.compute_metrics(collected.spans) | collected.figures
        self._metrics(iteration, values | {"time/rollout": collected.seconds})
        self._histograms(iteration, "train", collected)
        for document in collected.transcripts:
            self._reporter.episode(document)
        self._spans(collected.spans)
        self._timed(iteration, "rollout", collected.seconds)

    def updated(self, iteration: int, updated: Updated, seconds: float) -> None:
        """Every trained policy was updated."""
        values = metrics.update_metrics(updated) | metrics.compute_metrics(updated.spans)
        self._metrics(iteration, values | {"time/update": seconds})
        if self.loggers:
            for name, numbers in updated.distributions.items():
                self.loggers.histogram(iteration, f"policy/{name}", numbers)
        for document in updated.annotations:
            self._reporter.report("episode_annotation", document)
        for document in updated.batch:
            self._reporter.report("batch", document)
        self._spans(updated.spans)
        self._timed(iteration, "update", seconds)

    def completed(self, iteration: int, synced: list[Span], seconds: float) -> None:
        """The iteration is complete; publishing the weights took `seconds`."""
        self._reporter.iteration = iteration
        whole = sum(self.latest[f"time/{part}"] for part in ("rollout", "update")) + seconds
        self._metrics(iteration, {"time/sync": seconds, "time/iteration": whole})
        self._spans(synced)
        self._timed(iteration, "sync", seconds)
        self._display.iteration(iteration, self.latest)
        if iteration % self._line_every == 0:
            self._log(iteration_line(iteration, self.latest, self._shaped))

    def evaluated(
        self, iteration: int, prefix: str, collected: Collected, cached: Mapping[str, float]
    ) -> None:
        """Held-out tasks were played. `cached` metrics replace those of a few probes."""
        values = dict(cached) or metrics.eval_metrics(prefix, collected.facts) | collected.figures
        self._metrics(iteration, values | {f"time/{prefix}": collected.seconds})
        self._histograms(iteration, prefix, collected)
        for document in collected.transcripts:
            self._reporter.episode(document)
        self._spans(collected.spans)
        self._timed(iteration, f"evaluation ({prefix})", collected.seconds)
        if not self._summary_lines:
            self._log(evaluation_line(iteration, values, self._shaped))

    def all_evaluated(self, iteration: int) -> None:
        """All kinds of evaluation were played."""
        if self._summary_lines:
            for line in resolve(self._summary_lines)(self._config, iteration, self.latest):
                self.note(line)

    def waited(self, iteration: int, seconds: float) -> None:
        """Training waited for an evaluation that had not ended."""
        earlier = (
            self.measured("time/wait_for_evaluation", iteration) or 0.0
        )  # the last iteration may wait twice
        self._metrics(iteration, {"time/wait_for_evaluation": earlier + seconds})

    def checkpointed(self, iteration: int, path: str, size: int, *, best: bool) -> None:
        """A checkpoint was written, or was evaluated after that; path relative to the run folder."""
        headline = {key: value for key, value in self.latest.items() if key.startswith(("eval", "train/"))}
        written = self._headlines.get(iteration)
        if written is not None:
            headline = written | {key: headline[key] for key in headline if self._steps[key] == iteration}
        if self._config.evaluates_beside:
            self._headlines[iteration] = headline
        self._reporter.checkpoint(iteration, path, size, headline, best=best)
        if best or written is None:
            self._log(checkpoint_line(iteration, size, best=best))

    def removed(self, iteration: int, path: str) -> None:
        """Retention deleted a checkpoint."""
        self._headlines.pop(iteration, None)
        self._reporter.checkpoint(iteration, path, 0, {}, removed=True)

    def phase(self, phase: Phase, iteration: int, start: float) -> float:
        """The driver itself spent the time since `start` in `phase`. Returns the seconds."""
        end = time.time()
        self._reporter.phase("driver", phase, iteration, start, end)
        self._timed(iteration, phase, end - start)
        return end - start

    def stopping(self, iteration: int) -> None:
        """A stop was requested; the current step is completed first."""
        self._reporter.status("stopping", iteration)

    def ended(self, state: str, iteration: int, message: str = "") -> None:
        """The attempt's final status, if it did not fail."""
        self._reporter.status(state, iteration, message)

    def failed(self, fault: Fault, *, retry: bool) -> None:
        """The final status of an attempt that failed. `retry`: a new attempt from the last checkpoint may succeed."""
        facts = {"retry": True} if retry else None
        self._reporter.status("failed", self.completed_iterations, fault.cause, facts, remedy=fault.remedy)

    def note(self, text: str) -> None:
        """A line for the display and for the run's log."""
        self._log(text)

    def loading(self, done: float, text: str) -> None:
        """This process makes a base model."""
        self._display.loading(done, text)
        self.waiting(done, text)

    def waiting(self, done: float, text: str) -> None:
        """The run waits while a base model is made, in this process or another."""
        self._reporter.status("starting", self.completed_iterations, f"base model, {done:.0%}: {text}")

    def waits(self, reason: str) -> None:
        """The run waits for outside programs, as `reason` says; empty if it does not. Called again and again while it waits."""
        now = time.monotonic()
        if reason == self._waits or (reason and self._waits and now - self._waits_told < WAITS_SECONDS):
            return
        if reason and not self._waits:
            self._log(reason)
        self._waits, self._waits_told = reason, now
        self._reporter.status("running", self.completed_iterations, reason)

    def system(self, iteration: int, system: System) -> None:
        """Load of the machines and of the workers' devices."""
        self._metrics(iteration, metrics.system_metrics(system.hosts))
        for load in system.loads:
            if load.samples:
                self._reporter.report("utilisation", asdict(load))

    def system_due(self) -> bool:
        """Whether `reporting.system_every` has passed since the last sample."""
        now = time.monotonic()
        if now - self._sampled < self._config.reporting.system_every:
            return False
        self._sampled = now
        return True

    def measured(self, name: str, step: int) -> float | None:
        """A metric's value at this step; None if it was not measured or is not finite."""
        value = self.latest.get(name, nan)
        return value if self._steps.get(name) == step and isfinite(value) else None

    def _output(self, level: str, source: str, text: str) -> None:
        if self._config.reporting.log_level != "warning" or level != OUTPUT:
            self._reporter.log(level, source, text)

    def _log(self, text: str, level: str = "info") -> None:
        self._display.note(log_text(level, "driver", text))
        self._reporter.log(level, "driver", text)

    def _timed(self, iteration: int, phase: str, seconds: float) -> None:
        """Write a line if a phase took much longer than usual."""
        line = self._slow_phases.line(iteration, phase, seconds)
        if line:
            self._log(line, "warning")

    def _metrics(self, step: int, values: Mapping[str, float]) -> None:
        self.latest.update(values)
        self._steps.update(dict.fromkeys(values, step))
        self._reporter.metrics(step, values)
        if self.loggers:
            self.loggers.scalars(step, values)

    def _histograms(self, step: int, prefix: str, collected: Collected) -> None:
        """Report histograms of the episodes that did not fail."""
        if self.loggers and self._config.reporting.histograms:
            played = [facts for facts in collected.facts if not facts.failed]
            self.loggers.histogram(step, f"{prefix}/returns", [facts.episode_return for facts in played])
            self.loggers.histogram(step, f"{prefix}/lengths", [float(facts.turns) for facts in played])

    def _spans(self, spans: Iterable[Span]) -> None:
        for span in metrics.merge_spans(spans):
            self._reporter.report("phase", asdict(span))


class ReportedLog(logging.Handler):
    """Sends log records to the run's log."""

    def __init__(self, reporter: Reporter, level: str) -> None:
        super().__init__(level.upper())
        self._reporter = reporter

    def emit(self, record: logging.LogRecord) -> None:
        """Report one record, except the reporter's own: on a full disk each would cause another."""
        if record.name.startswith("workers.reporting"):
            return
        levels = {"CRITICAL": "error", "ERROR": "error", "WARNING": "warning", "DEBUG": "debug"}
        self._reporter.log(levels.get(record.levelname, "info"), record.name, plain(self.format(record)))


def _provenance(config: ExperimentConfig, engines: Mapping[str, str]) -> dict[str, Any]:
    """Facts about code, machine and data; without them if they cannot be collected, which must not end a run."""
    try:
        home = Path(os.environ.get("TROUPE_HOME", "var")).expanduser()
        chosen = {"engines": dict(engines)} if engines else {}
        return {"provenance": attempt_provenance(config, home) | chosen}
    except Exception as error:
        log.warning("the provenance of this attempt could not be collected: %s", error)
        return {}
