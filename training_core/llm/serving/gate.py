"""Gate: lets generations pass, and none while the weights change."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from training_core.errors import EngineFailure


class Gate:
    """Admits at most `slots` generations at a time (None: any number); closing has priority over waiting ones."""

    def __init__(self, slots: int | None = 1) -> None:
        self._slots = slots
        self._changed = threading.Condition()
        self._inside = 0
        self._closings = 0
        self._end = ""

    @property
    def closing(self) -> bool:
        """Whether the gate is closed or about to close: the current generations may stop between two tokens."""
        return self._closings > 0 or bool(self._end)

    @contextmanager
    def passing(self) -> Iterator[None]:
        """Wait until the gate is open and has a free slot, and occupy it during the block. Raises EngineFailure after `end`."""
        with self._changed:
            self._changed.wait_for(self._admits)
            if self._end:
                raise EngineFailure(self._end)
            self._inside += 1
        try:
            yield
        finally:
            with self._changed:
                self._inside -= 1
                self._changed.notify_all()

    def close(self) -> None:
        """Admit no generation until `open`, and wait for the current ones. Several `close` calls may overlap."""
        with self._changed:
            self._closings += 1
            self._changed.wait_for(lambda: not self._inside)

    def open(self) -> None:
        """Undo one `close`."""
        with self._changed:
            self._closings = max(0, self._closings - 1)
            self._changed.notify_all()

    @contextmanager
    def closed(self) -> Iterator[None]:
        """Close the gate during the block."""
        self.close()
        try:
            yield
        finally:
            self.open()

    def end(self, reason: str) -> None:
        """Refuse waiting and later generations."""
        with self._changed:
            self._end = reason
            self._changed.notify_all()

    def _admits(self) -> bool:
        return bool(self._end) or (not self._closings and (self._slots is None or self._inside < self._slots))
