"""What the driver tells the outside, in the words of the event types, and what it must remember to go on."""

import logging
import time
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from importlib import metadata
from math import isfinite, nan
from pathlib import Path
from typing import Any, Protocol

from training_core.config.experiment import ExperimentConfig
from training_core.config.marl.run import MarlConfig
from workers.driver.marl_lines import summary_lines
from workers.protocol.records import Collected, Phase, Span, Started, System, Updated
from workers.reporting.loggers.feeding import Loggers
from workers.reporting.reporter import Reporter
from workers.telemetry import metrics
from workers.telemetry.reasons import plain

log = logging.getLogger(__name__)
PACKAGES = ("troupe", "torch", "transformers", "tokenizers", "safetensors", "numpy", "ray")


class Display(Protocol):
    """Where a person at a terminal watches."""

    def note(self, text: str) -> None:
        """Say one line."""
        ...

    def loading(self, done: float, text: str) -> None:
        """A base model is being made: the share done, and what is being done."""
        ...

    def iteration(self, number: int, values: Mapping[str, float]) -> None:
        """An iteration was completed; its metrics."""
        ...

    def evaluation(self, number: int, values: Mapping[str, float]) -> None:
        """An evaluation was completed; its metrics."""
        ...


class RunEvents:
    """Converts results of the backend to events; counts progress; stores the latest metrics."""

    def __init__(self, config: ExperimentConfig, reporter: Reporter, display: Display) -> None:
        self._config = config
        self._reporter = reporter
        self._display = display
        self._began = time.time()
        self._sampled = 0.0
        self.progress = metrics.Progress()
        self.latest: dict[str, float] = {}
        """Last value of every metric."""
        self._steps: dict[str, int] = {}
        """And the step it belongs to."""
        self.loggers: Loggers | None = None
        """What writes the metrics somewhere else as well."""

    @property
    def command(self) -> str | None:
        """What the server wants: "stop", "pause", "exit" or None."""
        return self._reporter.command

    @property
    def completed_iterations(self) -> int:
        """Iterations that were completed."""
        return self._reporter.iteration

    def starting(self, resume_from: Path | None) -> None:
        """The driver lives and knows its config."""
        name = resume_from.name if resume_from else None
        facts = {"packages": _versions(), "resumed_from": name, "resume_note": "", "origin_damaged": ""}
        self._reporter.status("starting", 0, "its workers start", facts=facts)

    def damaged(self, iteration: int, path: str, found: str) -> None:
        """A checkpoint of this run is damaged; path relative to the run folder."""
        self._reporter.checkpoint(iteration, path, 0, {}, damaged=found)
        self._reporter.log("error", "driver", f"the checkpoint of iteration {iteration} is damaged: {found}")

    def origin_damaged(self, found: str) -> None:
        """The other run's checkpoint that this run starts from is damaged."""
        self._reporter.status("starting", 0, "", facts={"origin_damaged": found})

    def fell_back(self, place: Path, text: str) -> None:
        """The attempt resumes from another checkpoint than it was to; `text` says why."""
        self._display.note(text)
        self._reporter.log("warning", "driver", text)
        facts = {"resumed_from": place.name, "resume_note": text}
        self._reporter.status("starting", 0, "its workers start", facts=facts)

    def resumed_at(self, iteration: int) -> None:
        """So many iterations were completed by earlier attempts."""
        self._reporter.iteration = iteration

    def running(self, started: Started, iteration: int) -> None:
        """Every worker stands."""
        facts: dict[str, Any] = {"base_models": started.base_models}
        if started.gateway is not None:
            facts["gateway"] = started.gateway["url"]
            log.info(
                "agents reach the policies at %s; agents outside find the token in gateway.json in the run's folder",
                started.gateway["url"],
            )
        self._reporter.status("running", iteration, facts=facts)
        self._spans(started.spans)

    def collected(self, iteration: int, collected: Collected) -> None:
        """Episodes were played: what they earned is told before anything is learnt from them."""
        self.progress.add(collected.facts, collected.env_steps)
        values = metrics.train_metrics(collected) | self.progress.metrics()
        values |= metrics.compute_metrics(collected.spans) | collected.figures
        self._metrics(iteration, values | {"time/rollout": collected.seconds})
        self._histograms(iteration, "train", collected)
        for document in collected.transcripts:
            self._reporter.episode(document)
        self._spans(collected.spans)

    def updated(self, iteration: int, updated: Updated, seconds: float) -> None:
        """Every trained policy was updated."""
        values = metrics.update_metrics(updated) | metrics.compute_metrics(updated.spans)
        self._metrics(iteration, values | {"time/update": seconds})
        if self.loggers:
            for name, numbers in updated.distributions.items():
                self.loggers.histogram(iteration, f"policy/{name}", numbers)
        for document in updated.annotations:
            self._reporter.annotation(document)
        for document in updated.batch:
            self._reporter.batch(document)
        self._spans(updated.spans)

    def completed(self, iteration: int, synced: list[Span], seconds: float) -> None:
        """The iteration is over; `seconds` went into handing over the weights."""
        self._reporter.iteration = iteration
        whole = sum(self.latest[f"time/{part}"] for part in ("rollout", "update")) + seconds
        self._metrics(iteration, {"time/sync": seconds, "time/iteration": whole})
        self._spans(synced)
        self._display.iteration(iteration, self.latest)

    def evaluated(
        self, iteration: int, prefix: str, collected: Collected, cached: Mapping[str, float]
    ) -> None:
        """Held-out tasks were played. `cached` figures take the place of what a few probes would say."""
        values = dict(cached) or metrics.eval_metrics(prefix, collected.facts) | collected.figures
        self._metrics(iteration, values | {f"time/{prefix}": collected.seconds})
        self._histograms(iteration, prefix, collected)
        for document in collected.transcripts:
            self._reporter.episode(document)
        self._spans(collected.spans)
        if not isinstance(self._config, MarlConfig):
            self._display.evaluation(iteration, values)

    def all_evaluated(self, iteration: int) -> None:
        """Every kind of evaluation was played."""
        if isinstance(self._config, MarlConfig):
            for line in summary_lines(self._config, iteration, self.latest):
                self.note(line)

    def checkpointed(self, iteration: int, path: str, size: int, *, best: bool) -> None:
        """A checkpoint was written; path relative to the run folder."""
        headline = {key: value for key, value in self.latest.items() if key.startswith(("eval", "train/"))}
        self._reporter.checkpoint(iteration, path, size, headline, best=best)

    def removed(self, iteration: int, path: str) -> None:
        """Retention deleted a checkpoint."""
        self._reporter.checkpoint(iteration, path, 0, {}, removed=True)

    def phase(self, phase: Phase, iteration: int, start: float) -> float:
        """The driver itself was at `phase` since `start`; returns the seconds."""
        end = time.time()
        self._reporter.phase("driver", phase, iteration, start, end)
        return end - start

    def stopping(self, iteration: int) -> None:
        """A stop was asked for; what is under way is finished."""
        self._reporter.status("stopping", iteration)

    def ended(self, state: str, iteration: int, message: str = "", *, retry: bool = False) -> None:
        """The attempt's last word. `retry`: another attempt would help, from the last checkpoint."""
        self._reporter.status(state, iteration, message, facts={"retry": True} if retry else None)

    def note(self, text: str) -> None:
        """A line for whoever watches, and for the run's log."""
        self._display.note(text)
        self._reporter.log("info", "driver", text)

    def loading(self, done: float, text: str) -> None:
        """A base model is being made, by this process."""
        self._display.loading(done, text)
        self.waiting(done, text)

    def waiting(self, done: float, text: str) -> None:
        """A base model is being made, whoever does it, and the run waits for it."""
        self._reporter.status("starting", self.completed_iterations, f"base model, {done:.0%}: {text}")

    def system(self, iteration: int, system: System) -> None:
        """Load of the machines and of the workers' devices."""
        self._metrics(iteration, metrics.system_metrics(system.hosts))
        for load in system.loads:
            if load.samples:
                self._reporter.utilisation(asdict(load))

    def system_due(self) -> bool:
        """Whether it is time to look at the machines again."""
        now = time.monotonic()
        if now - self._sampled < self._config.reporting.system_every:
            return False
        self._sampled = now
        return True

    def measured(self, name: str, step: int) -> float | None:
        """A metric's value at this very step; None where it was not measured or is not a number."""
        value = self.latest.get(name, nan)
        return value if self._steps.get(name) == step and isfinite(value) else None

    def _metrics(self, step: int, values: Mapping[str, float]) -> None:
        self.latest.update(values)
        self._steps.update(dict.fromkeys(values, step))
        self._reporter.metrics(step, values)
        if self.loggers:
            self.loggers.scalars(step, values)

    def _histograms(self, step: int, prefix: str, collected: Collected) -> None:
        """Of the episodes that were played to their end."""
        if self.loggers and self._config.reporting.histograms:
            played = [facts for facts in collected.facts if not facts.failed]
            self.loggers.histogram(step, f"{prefix}/returns", [facts.episode_return for facts in played])
            self.loggers.histogram(step, f"{prefix}/lengths", [float(facts.turns) for facts in played])

    def _spans(self, spans: Iterable[Span]) -> None:
        for span in metrics.merge_spans(spans):
            self._reporter.span(asdict(span))


class ReportedLog(logging.Handler):
    """Sends log records to the run's log."""

    def __init__(self, reporter: Reporter, level: str) -> None:
        super().__init__(level.upper())
        self._reporter = reporter

    def emit(self, record: logging.LogRecord) -> None:
        """One line; the reporter's own lines are left out, or a full disk would speak to itself."""
        if record.name.startswith("workers.reporting"):
            return
        known = {"CRITICAL": "error", "ERROR": "error", "WARNING": "warning", "DEBUG": "debug"}
        self._reporter.log(known.get(record.levelname, "info"), record.name, plain(self.format(record)))


def _versions() -> dict[str, str]:
    """Versions of what decides the numbers; read from metadata, so nothing is imported."""
    return {name: metadata.version(name) for name in PACKAGES}
