"""Polls for stop requests in a second thread while the main thread of a local run plays."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, Thread, current_thread

from workers.protocol.records import StopCheck, Superseded

log = logging.getLogger(__name__)
POLL_SECONDS = 0.5


@contextmanager
def polling(stop_check: StopCheck) -> Iterator[None]:
    """Call `stop_check` every half second inside the block. The block waits for a call in progress."""
    ended = Event()

    def poll() -> None:
        while not ended.wait(POLL_SECONDS):
            try:
                stop_check()
            except Superseded:
                return  # the thread that plays raises it too
            except Exception:
                log.exception(
                    "a stop request could not be handled during play; it is handled after the iteration"
                )
                return

    thread = Thread(target=poll, name=f"{current_thread().name}/polling", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
