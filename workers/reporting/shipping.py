"""Deliver the spool of a live run, with increasing pauses while the server does not answer. Raises no errors."""

import logging
import random
import time
from collections.abc import Callable
from pathlib import Path

from workers.telemetry.delivery import HttpChannel, SpoolUploader, Undelivered

logger = logging.getLogger(__name__)

FIRST_PAUSE = 0.5
LONGEST_PAUSE = 8.0
WARNING_SECONDS = 60.0
"""Seconds between two warnings about the same outage."""


class Shipping:
    """The delivering part of a reporter. Only its thread calls it; `command` and `acknowledged` may be read by others."""

    def __init__(self, spool: Path, url: str, token: str, before: Callable[[], None] | None = None) -> None:
        self._spool, self._url, self._token = spool, url, token
        self._before = before
        self._uploader: SpoolUploader | None = None
        self._pause = 0.0
        self._not_before = 0.0
        self._last_warning = -WARNING_SECONDS
        self.command: str | None = None
        self.acknowledged = 0

    def ship(self) -> None:
        """Deliver all pending events, unless a pause after a failure has not ended."""
        while time.monotonic() >= self._not_before and self._step():
            pass

    def drain(self, deadline: float) -> None:
        """Deliver all pending events, repeating failed attempts until `deadline` (monotonic seconds)."""
        self._not_before = 0.0
        while time.monotonic() < deadline:
            if not self._step() and not self._pause:
                return
            if self._pause:
                time.sleep(max(0.0, min(self._pause, 1.0, deadline - time.monotonic())))

    @property
    def is_away(self) -> bool:
        """Whether the server did not accept the last batch."""
        return self._pause > 0

    def close(self) -> None:
        """Close the connection."""
        if self._uploader:
            self._uploader.close()

    def _step(self) -> bool:
        """Deliver one batch. Returns False if there is none or if it failed; `_pause` is then the time to wait."""
        try:
            if self._before:
                self._before()
                self._before = None
            if self._uploader is None:
                self._uploader = SpoolUploader(self._spool, HttpChannel(self._url, self._token))
            more = self._uploader.step()
        except Undelivered as error:
            self.command = (self._uploader and self._uploader.command) or self.command
            self._failed(str(error))
            return False
        except Exception as error:  # telemetry must not end the run; the spool has all events
            logger.exception("Delivering events failed")
            self._failed(repr(error))
            return False
        self._pause = 0.0
        self.acknowledged = self._uploader.acknowledged
        self.command = self._uploader.command or self.command
        return more

    def _failed(self, reason: str) -> None:
        self._pause = min(LONGEST_PAUSE, max(FIRST_PAUSE, self._pause * 2))
        self._not_before = time.monotonic() + self._pause * random.uniform(0.5, 1.5)
        if time.monotonic() - self._last_warning >= WARNING_SECONDS:
            self._last_warning = time.monotonic()
            logger.warning("Events stay on disk until the server accepts them; none is lost: %s", reason)
