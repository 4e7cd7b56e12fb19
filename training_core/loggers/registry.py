"""Loggers, additional outputs of a run's curves, by the field of `[reporting]` that enables them.

A logger's module is imported when it is first used: each needs its own package. A run's loggers have a separate thread, so that
training never waits for them. Scripts open one by its name: MARLKit's `make_logger`, with the methods of its BaseLogger.
"""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from queue import SimpleQueue
from threading import Thread, current_thread
from typing import Any, ClassVar, Literal, Protocol
from uuid import uuid4

from training_core.config.base import Section
from training_core.config.effects import Effects, where
from training_core.errors import ConfigError
from training_core.importing import resolve

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class LoggerSetup:
    """Arguments that a logger is constructed with."""

    folder: Path
    """The run folder; loggers write below it."""
    project: str
    run: str
    """Id of the run."""
    name: str
    """Name of the run for people."""
    config: Mapping[str, Any]
    """The resolved config, as JSON data."""
    fields: Mapping[str, Any] = field(default_factory=dict)
    """The fields of `[reporting]`; empty in a script, where a logger uses its defaults."""


class Logger(Protocol):
    """Called by one thread, in the order of the run's calls. Steps may repeat and may decrease."""

    def scalars(self, step: int, values: Mapping[str, float]) -> None:
        """Write the numbers of one step, by name."""
        ...

    def histogram(self, step: int, name: str, numbers: Sequence[float]) -> None:
        """Write the distribution of at least one number of one step."""
        ...

    def close(self) -> None:
        """Write pending data and close."""
        ...


class JsonLinesFields(Section):
    """Fields of `[reporting]` for JSON Lines."""

    jsonl: bool = False
    """Also write every metric to metrics.jsonl in the run's folder, one JSON object per line."""


class TensorBoardFields(Section):
    """Fields of `[reporting]` for TensorBoard."""

    tensorboard: bool = False
    """Also write every metric to TensorBoard event files, below tensorboard/ in the run's folder (extra `tensorboard`)."""


class WandbFields(Section):
    """Fields of `[reporting]` for Weights & Biases."""

    effects: ClassVar[Effects] = {"wandb_mode": where("wandb", True)}
    wandb: bool = False
    """Also log every metric to Weights & Biases (extra `wandb`)."""
    wandb_mode: Literal["offline", "online"] = "offline"
    """offline: stored below wandb/ in the run's folder, for `wandb sync`; online: sent immediately, with the machine's W&B login."""


FOLDER = __name__.rpartition(".")[0]


@dataclass(frozen=True)
class LoggerKind:
    """One logger."""

    fields: type[Section]
    """Its fields of `[reporting]`; one has the name of the logger and enables it."""
    logger: str
    """"module:Class" in this package."""
    package: str = ""
    """The package that it needs; the extra that installs it has the same name."""


LOGGERS: dict[str, LoggerKind] = {
    "jsonl": LoggerKind(JsonLinesFields, "jsonl:JsonLines"),
    "tensorboard": LoggerKind(TensorBoardFields, "tensorboard:TensorBoard", "tensorboard"),
    "wandb": LoggerKind(WandbFields, "wandb:WeightsAndBiases", "wandb"),
}
"""Loggers by name, in the order of the fields."""


def enabled_loggers(reporting: Section) -> tuple[str, ...]:
    """Return the names of enabled loggers. Raises ConfigError if a package is missing."""
    names = tuple(name for name in LOGGERS if getattr(reporting, name))
    for name in names:
        package = LOGGERS[name].package
        if package and find_spec(package) is None:
            text = f"needs the package {package}:"
            raise ConfigError({f"reporting.{name}": text}, remedy=f"pip install 'troupe[{package}]'")
    return names


def open_logger(name: str, setup: LoggerSetup) -> Logger:
    """The opened logger of this name."""
    logger: Logger = resolve(f"{FOLDER}.{LOGGERS[name].logger}")(setup)
    return logger


class Loggers:
    """The loggers of a run; may be called from any thread. A failing logger is reported once and removed; the run continues."""

    def __init__(self, names: Sequence[str], setup: LoggerSetup) -> None:
        self._queue: SimpleQueue[tuple[str, tuple[Any, ...]] | None] = SimpleQueue()
        self._names = tuple(names)
        self._setup = setup
        self._open: dict[str, Logger] = {}
        self._thread = Thread(target=self._work, name=f"{current_thread().name}/loggers", daemon=True)
        if names:
            self._thread.start()

    def scalars(self, step: int, values: Mapping[str, float]) -> None:
        """Write the numbers of one step, by name."""
        self._put("scalars", step, dict(values))

    def histogram(self, step: int, name: str, numbers: Sequence[float]) -> None:
        """Write the distribution of numbers of one step; an empty sequence is ignored."""
        if numbers:
            self._put("histogram", step, name, list(numbers))

    def close(self, timeout: float = 30.0) -> None:
        """Wait at most `timeout` seconds for pending data to be written."""
        if self._names:
            self._queue.put(None)
            self._thread.join(timeout)

    def _put(self, method: str, *arguments: Any) -> None:
        if self._names:
            self._queue.put((method, arguments))

    def _work(self) -> None:
        for name in self._names:
            self._guarded(name, self._begin, name)
        while (call := self._queue.get()) is not None:
            method, arguments = call
            for name, logger in list(self._open.items()):
                self._guarded(name, getattr(logger, method), *arguments)
        for name, logger in list(self._open.items()):
            self._guarded(name, logger.close)

    def _begin(self, name: str) -> None:
        self._open[name] = open_logger(name, self._setup)

    def _guarded(self, name: str, call: Any, *arguments: Any) -> None:
        """Remove a logger that raises: an error in a third-party package must not end the run."""
        try:
            call(*arguments)
        except Exception as error:
            self._open.pop(name, None)
            log.warning(
                "reporting.%s is disabled for the rest of this attempt: %s: %s",
                name,
                type(error).__name__,
                error,
            )


class NamedLogger:
    """Opens its logger at the first number, with the config as it is then. "none" writes nothing."""

    def __init__(
        self, kind: str, folder: Path, project: str, run_name: str, config: Mapping[str, Any]
    ) -> None:
        self._kind, self._folder, self._project, self._name = kind, folder, project, run_name
        self._config = dict(config)
        self._logger: Logger | None = None

    def log_scalar(self, name: str, value: float, step: int) -> None:
        """Write one number."""
        self.log_scalars({name: value}, step)

    def log_scalars(self, values: Mapping[str, float], step: int) -> None:
        """Write the numbers of one step, by name."""
        if logger := self._open():
            logger.scalars(step, values)

    def log_histogram(self, name: str, values: Sequence[float], step: int) -> None:
        """Write the distribution of numbers of one step."""
        logger = self._open()
        if logger and len(values):
            logger.histogram(step, name, [float(value) for value in values])

    def log_config(self, config: Mapping[str, Any]) -> None:
        """Add to the config. Raises ConfigError after the first number, because the logger has then written the config."""
        if self._logger:
            raise ConfigError(
                {"config": "log_config must precede the first number"}, remedy="pass config to make_logger"
            )
        self._config |= config

    def close(self) -> None:
        """Write pending data and close."""
        if self._logger:
            self._logger.close()

    def _open(self) -> Logger | None:
        if self._logger is None and self._kind != "none":
            self._folder.mkdir(parents=True, exist_ok=True)
            setup = LoggerSetup(self._folder, self._project, uuid4().hex, self._name, self._config)
            self._logger = open_logger(self._kind, setup)
        return self._logger


def make_logger(
    kind: str,
    project: str = "marlkit",
    run_name: str = "run",
    config: Mapping[str, Any] | None = None,
    folder: str | Path = "runs",
) -> NamedLogger:
    """Return a logger that writes below `folder`. Raises ConfigError for an unknown kind."""
    if kind not in LOGGERS and kind != "none":
        raise ConfigError({"logger": f"there is no logger {kind!r}; use none, {', '.join(LOGGERS)}"})
    # Absolute: the process of W&B keeps the working directory of its first run.
    return NamedLogger(kind, Path(folder).absolute(), project, run_name, config or {})
