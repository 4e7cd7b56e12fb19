"""Tasks that hang, for a Celery worker of a test."""

import os
import signal
import time
from pathlib import Path

from celery import shared_task
from celery.exceptions import SoftTimeLimitExceeded


def note(folder: str, text: str) -> int:
    """A line for the test; how often it has been written."""
    with (Path(folder) / text).open("a") as file:
        file.write(f"{os.getpid()}\n")
    return len((Path(folder) / text).read_text().splitlines())


@shared_task(name="tests.hang_once", soft_time_limit=1, time_limit=2)
def hang_once(folder: str) -> None:
    """The first time it ignores everything that can be ignored."""
    if note(folder, "begun") == 1:
        signal.signal(signal.SIGUSR1, signal.SIG_IGN)
        while True:
            try:
                time.sleep(60)
            except SoftTimeLimitExceeded:
                continue
    note(folder, "done")


@shared_task(name="tests.hang_always", soft_time_limit=1, time_limit=2)
def hang_always(folder: str) -> None:
    """It never ends by itself."""
    note(folder, "begun")
    while True:
        try:
            time.sleep(60)
        except SoftTimeLimitExceeded:
            continue


@shared_task(name="tests.wait_softly", soft_time_limit=1, time_limit=60)
def wait_softly(folder: str) -> None:
    """It can be interrupted."""
    if note(folder, "begun") == 1:
        time.sleep(600)
    note(folder, "done")


@shared_task(name="tests.die_once")
def die_once(folder: str) -> None:
    """The first time its process is killed, as for want of memory."""
    if note(folder, "begun") == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    note(folder, "done")


@shared_task(name="tests.note")
def noted(folder: str) -> None:
    """A task that is well."""
    note(folder, "well")
