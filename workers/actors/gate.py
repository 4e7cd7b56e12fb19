"""Gate: allows one generation at a time, and none while the weights change."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager


class Gate:
    """A mutual exclusion in which closing has priority over waiting generations."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._inside = False
        self._closings = 0

    @property
    def closing(self) -> bool:
        """Whether the gate is closed, or about to close."""
        return self._closings > 0

    @contextmanager
    def passing(self) -> Iterator[None]:
        """Wait until the gate is open and free, and occupy it during the block."""
        with self._changed:
            self._changed.wait_for(lambda: not self._inside and not self._closings)
            self._inside = True
        try:
            yield
        finally:
            with self._changed:
                self._inside = False
                self._changed.notify_all()

    def close(self) -> None:
        """Admit no generation until `open`, and wait for the current one. Several `close` calls may overlap."""
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
