"""A task that hangs is ended, told, and tried again: by a real Celery worker, started as the stack starts it."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.webapp.common import hanging_tasks
from webapp.common.task_queue import KEY, TRIES
from webapp.site import views as health
from webapp.site.celery import app
from webapp.stack.plan import WORKER

pytestmark = pytest.mark.extended
ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def worker(tmp_path: Path) -> Iterator[Callable[[], str]]:
    """A worker of the tests' Redis; what it has said so far."""
    with health._redis_client() as redis:
        redis.delete("celery", *(redis.keys(f"{KEY}*") or [KEY]))
    log = tmp_path / "worker.log"
    command = [sys.executable, "-m", "celery", "-A", "webapp.site.celery", "worker", *WORKER]
    command += ["-I", "tests.webapp.common.hanging_tasks", "-n", "hanging@test"]
    with log.open("wb") as output:
        process = subprocess.Popen(
            command, stdout=output, stderr=subprocess.STDOUT, cwd=ROOT, start_new_session=True
        )
    try:
        yield lambda: log.read_text(errors="replace")
    finally:
        # A worker that shuts down applies no time limits: it would wait for a task that hangs.
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def send(task: Any, folder: Path) -> None:
    assert app.conf.broker_url
    task.apply_async(args=[str(folder)])


def lines(folder: Path, name: str) -> list[str]:
    try:
        return (folder / name).read_text().splitlines()
    except FileNotFoundError:
        return []


def until(happened: Callable[[], object], said: Callable[[], str]) -> None:
    deadline = time.monotonic() + 300
    while not happened():
        assert time.monotonic() < deadline, said()
        time.sleep(0.05)


@pytest.mark.parametrize(
    ("task", "how"),
    [
        (hanging_tasks.hang_once, "it exceeded its time limit"),
        (hanging_tasks.wait_softly, "it exceeded its time limit"),
        (hanging_tasks.die_once, "its process died"),
    ],
)
def test_a_task_that_hangs_or_dies_is_ended_told_and_tried_again(
    task: Any, how: str, worker: Callable[[], str], tmp_path: Path, db: None
) -> None:
    send(task, tmp_path)
    until(lambda: lines(tmp_path, "done"), worker)
    assert 2 <= len(lines(tmp_path, "begun")) <= TRIES
    until(lambda: f"was ended: {how}; it is retried" in worker(), worker)
    with health._redis_client() as redis:
        redis.set("troupe:worker:alive", repr(time.time()))
    told = health.check_all()["worker"]
    assert told.startswith(f"the task {task.name} was ended ") and told.endswith(how)


def test_a_task_that_always_hangs_is_given_up_and_others_are_done(
    worker: Callable[[], str], tmp_path: Path
) -> None:
    for _ in range(5):  # more than the worker has processes
        send(hanging_tasks.hang_always, tmp_path)
    send(hanging_tasks.noted, tmp_path)
    until(lambda: lines(tmp_path, "well"), worker)
    until(lambda: "is not retried after" in worker(), worker)
    assert len(lines(tmp_path, "begun")) >= TRIES
