"""Call all loggers of a run in a separate thread, so that training never waits for them."""

import logging
from collections.abc import Mapping, Sequence
from queue import SimpleQueue
from threading import Thread, current_thread
from typing import Any

from training_core.loggers.registry import Logger, LoggerSetup, open_logger

log = logging.getLogger(__name__)


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
