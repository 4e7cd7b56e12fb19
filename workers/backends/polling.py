"""Polls for a stop request from a second thread, while the only thread of a local run plays."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, Thread

from workers.protocol.records import StopCheck, Superseded

log = logging.getLogger(__name__)
EVERY = 0.5
"""Seconds between looks."""


@contextmanager
def looking(stop_check: StopCheck) -> Iterator[None]:
    """Call `stop_check` every half second inside the block. The block waits for a call in progress."""
    over = Event()

    def look() -> None:
        while not over.wait(EVERY):
            try:
                stop_check()
            except Superseded:
                return  # the thread that plays meets it too, and leaves
            except Exception:
                log.exception(
                    "the run could not do what it is asked for while it plays; it does so after the iteration"
                )
                return

    thread = Thread(target=look, name="looking", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
