"""What outlives the program: its end is reported if it could not, and the events it has left are delivered."""

import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

import troupe
from tests.workers.reporting.conftest import Ingest
from troupe_client.reporting.after_end import SILENT, spool_end
from troupe_client.reporting.sync import ship_rest
from workers.reporting.reporter import Reporter
from workers.storage.folders import RunFolder

PROGRAM = """
import os, signal, threading
import troupe
run = troupe.init(name="outside")
troupe.log({"loss": 1.0})
print("logged", flush=True)
%s
"""


def started(last: str, tmp_path: Path, url: str) -> subprocess.Popen[str]:
    """A program that reports to the server of the test."""
    environment = os.environ | {
        "TROUPE_URL": url.removesuffix("/events/"),
        "TROUPE_TOKEN": "secret",
        "TROUPE_DIR": str(tmp_path),
        "PYTHONPATH": str(Path(troupe.__file__).parent),
    }
    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM % last], env=environment, stdout=subprocess.PIPE, text=True,
        start_new_session=True,
    )  # fmt: skip


def end_of(ingest: Ingest) -> dict[str, Any]:
    """The last event of the program, as soon as its end has arrived."""
    for _ in range(1200):
        ends = [
            event for event in ingest.events() if event["type"] == "status" and event["state"] != "running"
        ]
        if ends:
            assert ends == ingest.events()[-1:]
            assert [event["seq"] for event in ingest.events()][-1] == len(ingest.events())
            return ends[0]
        threading.Event().wait(0.05)
    raise AssertionError("the end was not reported")


@pytest.mark.parametrize(
    ("last", "code"), [("os._exit(0)", 0), ("os.kill(os.getpid(), signal.SIGKILL)", -9), ("os.abort()", -6)]
)
def test_end_without_word_is_reported(ingest: Ingest, url: str, tmp_path: Path, last: str, code: int) -> None:
    with started(last, tmp_path, url) as program:
        assert program.wait(500) == code
    end = end_of(ingest)
    assert (end["state"], end["message"]) == ("failed", SILENT)
    assert {"loss": 1.0} in [event.get("values") for event in ingest.events()]


def test_the_end_is_reported_behind_what_a_full_disk_has_not_taken(
    ingest: Ingest, url: str, tmp_path: Path
) -> None:
    """The server has events from the memory of the killed program; the disk has one of them, and takes no end."""
    reporter = Reporter(RunFolder(tmp_path), "abcdefgh23", 1, url, "secret")
    reporter.status("running", 0)
    for step in range(5):
        reporter.metrics(step, {"loss": 1.0})
    assert reporter.close()
    lines = reporter.spool.read_bytes().splitlines(keepends=True)
    reporter.spool.write_bytes(lines[0])
    reporter.spool.with_suffix(".ack").unlink()
    end = spool_end(reporter.spool)
    reporter.spool.write_bytes(lines[0])
    ship_rest(reporter.spool, (end,), url, "secret")
    assert [event["seq"] for event in ingest.events()] == list(range(1, 8))
    assert ingest.events()[-1]["message"] == SILENT


@pytest.mark.slow
def test_a_program_that_goes_on_is_left_alone(ingest: Ingest, url: str, tmp_path: Path) -> None:
    with started("os.fork()\nsignal.pause()", tmp_path, url) as program:  # the child holds no pipe
        assert program.stdout and program.stdout.readline() == "logged\n"
        for _ in range(1200):
            if any(event["type"] == "heartbeat" for event in ingest.events()):
                break
            threading.Event().wait(0.05)
        assert all(event.get("state") in (None, "running") for event in ingest.events())
        program.send_signal(signal.SIGKILL)
        assert end_of(ingest)["message"] == SILENT
        os.killpg(program.pid, signal.SIGKILL)


@pytest.mark.slow
def test_what_the_program_could_not_deliver_arrives_later(ingest: Ingest, url: str, tmp_path: Path) -> None:
    ingest.down_with = 503
    with started("", tmp_path, url) as program:
        assert program.wait(500) == 0
    assert not ingest.events()
    ingest.down_with = 0
    assert end_of(ingest)["state"] == "finished"


@pytest.mark.parametrize("ended", [True, False])
def test_a_spool_is_completed_once(tmp_path: Path, ended: bool) -> None:
    reporter = Reporter(RunFolder(tmp_path), "abcdefgh23", 1)
    reporter.status("running", 0, facts={"client": True})
    reporter.metrics(3, {"loss": 1.0})
    reporter.status("finished" if ended else "running", 4)
    reporter.close()
    before = reporter.spool.read_bytes()
    with reporter.spool.open("ab") as file:
        file.write(b'{"run":"abcde')  # killed while it wrote
    for _ in range(2):
        spool_end(reporter.spool)
        lines = reporter.spool.read_bytes().splitlines(keepends=True)
        if ended:
            assert b"".join(lines) == before
        else:
            assert b"".join(lines[:-1]) == before
            last = json.loads(lines[-1])
            assert (last["seq"], last["state"], last["iteration"]) == (len(lines), "failed", 4)
