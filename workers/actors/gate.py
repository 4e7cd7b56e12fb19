"""The gate before a model: one generation at a time passes, and none while the weights change."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager


class Gate:
    """Whoever closes it goes before those that wait to pass."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._inside = False
        self._closings = 0

    @property
    def closing(self) -> bool:
        """Whether somebody waits for it to be empty, or has closed it."""
        return self._closings > 0

    @contextmanager
    def passing(self) -> Iterator[None]:
        """Wait for one's turn, and be inside for the length of the block."""
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
        """Let nobody in until `open`; returns when it is empty. May be closed several times over."""
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
        """Closed for the length of the block."""
        self.close()
        try:
            yield
        finally:
            self.open()
