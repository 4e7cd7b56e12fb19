"""Deliver a live spool again and again: back off while the server is away, never let an error out."""

import logging
import random
import time
from collections.abc import Callable
from pathlib import Path

from workers.telemetry.delivery import HttpChannel, SpoolUploader, Undelivered

logger = logging.getLogger(__name__)

FIRST_PAUSE = 0.5
LONGEST_PAUSE = 8.0
SAID_AGAIN = 60.0
"""Seconds between two complaints about the same outage."""


class Shipping:
    """The sending half of a reporter; used by its thread only, but for the two properties."""

    def __init__(self, spool: Path, url: str, token: str, before: Callable[[], None] | None = None) -> None:
        self._spool, self._url, self._token = spool, url, token
        self._before = before
        self._uploader: SpoolUploader | None = None
        self._pause = 0.0
        self._not_before = 0.0
        self._complained = -SAID_AGAIN
        self.command: str | None = None
        self.acknowledged = 0

    def ship(self) -> None:
        """Send all there is, unless a pause after a failure still lasts."""
        while time.monotonic() >= self._not_before and self._step():
            pass

    def drain(self, deadline: float) -> None:
        """Send all there is, trying again until `deadline` (monotonic seconds)."""
        self._not_before = 0.0
        while time.monotonic() < deadline:
            if not self._step() and not self._pause:
                return
            if self._pause:
                time.sleep(max(0.0, min(self._pause, 1.0, deadline - time.monotonic())))

    def close(self) -> None:
        """Let go of the connection."""
        if self._uploader:
            self._uploader.close()

    def _step(self) -> bool:
        """One batch; False when there is none or it failed (then `_pause` says for how long to wait)."""
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
        except Exception as error:  # telemetry must not end the run; the spool keeps what was said
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
        if time.monotonic() - self._complained >= SAID_AGAIN:
            self._complained = time.monotonic()
            logger.warning("Events wait on disk, nothing is lost: %s", reason)
