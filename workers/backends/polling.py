"""What a crew of one process does while its only thread plays: another thread looks at what is asked of the run."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, Thread

from workers.protocol.records import Spot, Superseded

log = logging.getLogger(__name__)
EVERY = 0.5
"""Seconds between looks."""


@contextmanager
def looking(spot: Spot) -> Iterator[None]:
    """Call `spot` every half second for the length of the block, which ends no earlier than a call under way."""
    over = Event()

    def look() -> None:
        while not over.wait(EVERY):
            try:
                spot()
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
