"""All loggers of a run, fed by a thread of their own: whoever logs waits for none of them."""

import logging
from collections.abc import Mapping, Sequence
from queue import SimpleQueue
from threading import Thread
from typing import Any

from workers.reporting.loggers.base import Logger, Opening
from workers.reporting.loggers.registry import LOGGERS

log = logging.getLogger(__name__)


class Loggers:
    """Call it from any thread. A logger that fails is said once and left out; the run goes on."""

    def __init__(self, names: Sequence[str], opening: Opening) -> None:
        self._queue: SimpleQueue[tuple[str, tuple[Any, ...]] | None] = SimpleQueue()
        self._names = tuple(names)
        self._opening = opening
        self._open: dict[str, Logger] = {}
        self._thread = Thread(target=self._work, name="loggers", daemon=True)
        if names:
            self._thread.start()

    def scalars(self, step: int, values: Mapping[str, float]) -> None:
        """Numbers of one step by name."""
        self._put("scalars", step, dict(values))

    def histogram(self, step: int, name: str, numbers: Sequence[float]) -> None:
        """How numbers of one step are distributed; none are no histogram."""
        if numbers:
            self._put("histogram", step, name, list(numbers))

    def close(self, timeout: float = 30.0) -> None:
        """Let them write what is left, for at most `timeout` seconds."""
        if self._names:
            self._queue.put(None)
            self._thread.join(timeout)

    def _put(self, act: str, *arguments: Any) -> None:
        if self._names:
            self._queue.put((act, arguments))

    def _work(self) -> None:
        for name in self._names:
            self._guarded(name, self._begin, name)
        while (said := self._queue.get()) is not None:
            act, arguments = said
            for name, logger in list(self._open.items()):
                self._guarded(name, getattr(logger, act), *arguments)
        for name, logger in list(self._open.items()):
            self._guarded(name, logger.close)

    def _begin(self, name: str) -> None:
        self._open[name] = LOGGERS[name](self._opening)

    def _guarded(self, name: str, call: Any, *arguments: Any) -> None:
        """Whatever a package of others raises is its own affair, not the run's."""
        try:
            call(*arguments)
        except Exception as error:
            self._open.pop(name, None)
            log.warning("reporting.%s stops here: %s: %s", name, type(error).__name__, error)
