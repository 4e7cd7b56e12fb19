"""The reporter: all events on disk, each delivered once, no delay of training."""

import json
import logging
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pydantic import TypeAdapter

from troupe_client.reporting.sync import ship_spool, undelivered
from workers.reporting import reporter as reporter_module
from workers.reporting.reporter import Reporter
from workers.storage.folders import RunFolder
from workers.telemetry import spool as spool_module
from workers.telemetry.events import AnyEvent

EVENTS: TypeAdapter[Any] = TypeAdapter(AnyEvent)


@pytest.fixture(autouse=True)
def _no_heartbeats(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only what a test reports is on disk, however long it takes."""
    monkeypatch.setattr(reporter_module, "HEARTBEAT_SECONDS", 3600.0)


def make(path: Path, url: str = "", token: str = "secret") -> Reporter:
    return Reporter(RunFolder(path), "run1", 1, url, token)


def on_disk(path: Path) -> list[dict[str, Any]]:
    (spool,) = [p for p in path.glob("attempt-1/spool/*.jsonl") if "rejected" not in p.name]
    return [json.loads(line) for line in spool.read_text().splitlines()]


def until(condition: Callable[[], bool], seconds: float = 300.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "did not come about"
        time.sleep(0.01)


def test_many_metrics_of_a_step_become_several_events(tmp_path: Path) -> None:
    reporter = make(tmp_path)
    values = {f"m{number}": float(number) for number in range(2500)}
    reporter.metrics(7, values)
    reporter.close()
    sent = [EVENTS.validate_python(event) for event in on_disk(tmp_path) if event["type"] == "metrics"]
    assert [len(event.values) for event in sent] == [1000, 1000, 500]
    assert {key: value for event in sent for key, value in event.values.items()} == values
    assert {event.step for event in sent} == {7}


class Disk:
    """The disk under a spool, which can be full."""

    def __init__(self, reporter: Reporter, monkeypatch: pytest.MonkeyPatch) -> None:
        self.is_full = False
        file, write = reporter._spool._file, os.write

        def on_disk(number: int, data: bytes) -> int:
            if number == file and self.is_full:
                raise OSError(28, "No space left on device")
            return write(number, data)

        monkeypatch.setattr(os, "write", on_disk)
        monkeypatch.setattr(spool_module, "RETRY_SECONDS", 0.0)


def steps_of(events: list[dict[str, Any]]) -> list[int]:
    return [event["step"] for event in events if event["type"] == "metrics"]


def test_events_that_a_full_disk_does_not_take_are_sent_from_memory(
    tmp_path: Path, url: str, ingest: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    reporter = make(tmp_path, url)
    disk = Disk(reporter, monkeypatch)
    for step in range(90):
        disk.is_full = 20 <= step < 60
        reporter.metrics(step, {"a": step})
        if step == 50:  # some of those in memory are stored, and gone, before the disk has room again
            until(lambda: reporter.acknowledged == reporter.seq)
    disk.is_full = True  # for the end, too
    reporter.status("finished", 90)
    assert reporter.close()
    assert steps_of(ingest.events()) == list(range(90))
    assert ingest.events()[-1]["state"] == "finished"
    (spool,) = tmp_path.glob("attempt-1/spool/*.jsonl")
    lines = spool.read_bytes().split(b"\n")[:-1]
    assert [json.loads(line)["seq"] for line in lines if line] == [
        number for number, line in enumerate(lines, 1) if line
    ]
    assert b"" in lines
    ingest.stored.clear()  # as a database put back from a dump; the spool still delivers what it has
    spool.with_suffix(".ack").unlink()
    ship_spool(tmp_path, url, "secret")
    found = ingest.events()
    assert [event["seq"] for event in found] == list(range(1, len(lines) + 1))
    assert {*range(20), *range(60, 90)} <= set(steps_of(found))


def test_lost_events_are_counted_and_the_end_says_so(
    tmp_path: Path, url: str, ingest: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    ingest.down_with = 503
    monkeypatch.setattr(reporter_module, "MAX_KEPT", 2000)
    reporter = make(tmp_path, url)
    disk = Disk(reporter, monkeypatch)
    disk.is_full = True
    for step in range(100):
        reporter.metrics(step, {"a": step})
    reporter.status("finished", 100)  # has room beyond the bound
    ingest.down_with = 0
    assert not reporter.close()
    events = [EVENTS.validate_python(event) for event in ingest.events()]
    assert reporter.lost > 50
    assert len(steps_of(ingest.events())) == 100 - reporter.lost
    told = [int(event.message.split()[0]) for event in events if event.type == "log"]
    assert sum(told) == reporter.lost
    assert max(event.lost for event in events if event.type == "heartbeat") == reporter.lost
    assert events[-1].state == "finished"
    assert events[-1].message.startswith(f"{reporter.lost} events are lost")


def test_an_acknowledgement_that_cannot_be_kept_is_no_failure(
    tmp_path: Path, url: str, ingest: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_text", full)
    reporter = make(tmp_path, url)
    reporter.metrics(1, {"a": 1.0})
    assert reporter.close()
    assert not caplog.records


def test_every_kind_of_event_validates(tmp_path: Path) -> None:
    reporter = make(tmp_path)
    candidate = {
        "text": "up", "token_ids": [1], "tokens": ["up"], "logprobs": [float("-inf")], "versions": [0], "stop_reason": "stop",
        "local_reward": 0.0, "team_reward": 0.0, "reward": float("nan"), "advantage": None,
    }  # fmt: skip
    turn = {"index": 0, "role": "planner", "policy": "p", "messages": [{"role": "user", "content": "x"}],
            "prompt_ids": [1], "candidates": [candidate], "executed": 0, "board": None}  # fmt: skip
    episode = {
        "episode": "1-1-train-0", "iteration": 1, "kind": "train", "task": "t", "title": "x" * 300, "outcome": "ok",
        "success": True, "episode_return": 1.0, "rewards": {"planner": 1.0}, "versions": {"p": 0}, "tokens": 1,
        "started": 1.0, "ended": 2.0, "turns": [turn],
    }  # fmt: skip
    reporter.status("starting", 0, facts={"packages": {"torch": "2"}})
    reporter.metrics(1, {"train/return": 0.5})
    reporter.episode(episode)
    reporter.report(
        "episode_annotation", {"episode": "1-1-train-0", "turns": [{"turn": 0, "advantages": [0.1]}]}
    )
    reporter.phase("driver", "rollout", 1, 1.0, 2.0)
    reporter.checkpoint(1, "checkpoints/iteration-000001", 10, {"eval/success": 0.5}, best=True)
    reporter.log("info", "driver", "hello")
    assert reporter.close()
    events = [EVENTS.validate_python(event) for event in on_disk(tmp_path)]
    assert [event.type for event in events] == [
        "status", "metrics", "episode", "episode_annotation", "phase", "checkpoint", "log",
    ]  # fmt: skip
    assert [event.seq for event in events] == [1, 2, 3, 4, 5, 6, 7]
    assert events[2].turns[0].candidates[0].reward == "NaN"
    assert events[2].turns[0].candidates[0].logprobs == ["-Infinity"]
    assert events[2].turns[0].candidates[0].advantage is None


def test_all_is_delivered_in_order(tmp_path: Path, url: str, ingest: Any) -> None:
    reporter = make(tmp_path, url)
    for step in range(300):
        reporter.metrics(step, {"a": step})
    assert reporter.close()
    metrics = [event for event in ingest.events() if event["type"] == "metrics"]
    assert [event["step"] for event in metrics] == list(range(300))
    assert reporter.acknowledged == reporter.seq
    assert undelivered(tmp_path) == 0


def test_threads_share_one_sequence(tmp_path: Path) -> None:
    reporter = make(tmp_path)
    threads = [
        threading.Thread(target=lambda: [reporter.metrics(i, {"a": i}) for i in range(500)]) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    reporter.close()
    assert [event["seq"] for event in on_disk(tmp_path)] == list(range(1, 2001))


def test_server_away_loses_nothing(tmp_path: Path, url: str, ingest: Any) -> None:
    ingest.down_with = 503
    reporter = make(tmp_path, url)
    for step in range(100):
        reporter.metrics(step, {"a": step})
    until(lambda: ingest.batches >= 2)
    assert ingest.events() == []
    ingest.down_with = 0
    assert reporter.close()
    assert [event["step"] for event in ingest.events() if event["type"] == "metrics"] == list(range(100))


def test_close_ends_in_time_and_sync_delivers_the_rest(tmp_path: Path, url: str, ingest: Any) -> None:
    ingest.down_with = 500
    reporter = make(tmp_path, url)
    reporter.metrics(1, {"a": 1.0})
    assert not reporter.close(timeout=0.3)
    reporter._thread.join()  # it may be in the middle of its last try
    assert undelivered(tmp_path) == 1
    ingest.down_with = 0
    assert ship_spool(tmp_path, url, "secret").events == 1
    assert ship_spool(tmp_path, url, "secret").events == 0
    assert len(ingest.events()) == 1


def test_gap_rewinds_to_what_is_expected(tmp_path: Path, url: str, ingest: Any) -> None:
    reporter = make(tmp_path, url)
    for step in range(60):
        reporter.metrics(step, {"a": step})
    until(lambda: reporter.acknowledged == 60)
    ingest.stored[reporter.producer] = ingest.stored[reporter.producer][
        :20
    ]  # as a database put back from a dump
    reporter.metrics(60, {"a": 60})
    assert reporter.close()
    assert [event["seq"] for event in ingest.events()] == list(range(1, reporter.seq + 1))


@pytest.mark.parametrize("named", [True, False])
def test_a_refused_event_is_set_aside_and_later_ones_are_delivered(
    tmp_path: Path, url: str, ingest: Any, named: bool
) -> None:
    ingest.refuse = lambda event: event["type"] == "metrics" and event["step"] in (7, 31)
    ingest.name_refused = named
    reporter = make(tmp_path, url)
    for step in range(40):
        reporter.metrics(step, {"a": step})
    assert reporter.close()
    arrived = ingest.events()
    assert [event["step"] for event in arrived if event["type"] == "metrics"] == [
        s for s in range(40) if s not in (7, 31)
    ]
    logs = [event for event in arrived if event["type"] == "log"]
    assert [event["seq"] for event in logs] == [8, 32]
    assert all(EVENTS.validate_python(event).level == "error" for event in logs)
    (rejected,) = tmp_path.glob("attempt-1/spool/*.rejected.jsonl")
    lines = [json.loads(line) for line in rejected.read_text().splitlines()]
    assert [json.loads(line["event"])["step"] for line in lines] == [7, 31]
    assert ship_spool(tmp_path, url, "secret").rejected == 2


def test_a_damaged_line_costs_only_itself(tmp_path: Path, url: str, ingest: Any) -> None:
    reporter = make(tmp_path)
    for step in range(5):
        reporter.metrics(step, {"a": step})
    reporter.close()
    (spool,) = tmp_path.glob("attempt-1/spool/*.jsonl")
    lines = spool.read_bytes().splitlines(keepends=True)
    for place in (0, 3):
        lines[place] = b"\0" * (len(lines[place]) - 1) + b"\n"
    spool.write_bytes(b"".join(lines))
    assert ship_spool(tmp_path, url, "secret").rejected == 2
    arrived = [EVENTS.validate_python(event) for event in ingest.events()]
    assert [event.type for event in arrived] == ["log", "metrics", "metrics", "log", "metrics"]
    assert "unreadable" in arrived[3].message


def test_wrong_token_keeps_everything(tmp_path: Path, url: str, ingest: Any) -> None:
    reporter = make(tmp_path, url, token="wrong")
    reporter.metrics(1, {"a": 1})
    until(lambda: ingest.batches >= 1)
    assert not reporter.close(timeout=0.2)
    assert len(on_disk(tmp_path)) == 1


def test_command_reaches_the_driver(tmp_path: Path, url: str, ingest: Any) -> None:
    reporter = make(tmp_path, url)
    assert reporter.command is None
    ingest.command = "stop"
    reporter.metrics(1, {"a": 1})
    until(lambda: reporter.command == "stop")
    reporter.close()


def test_delivering_is_not_news(tmp_path: Path, url: str, ingest: Any) -> None:
    """A driver that reports its log must not report that it reported."""
    reporter = make(tmp_path, url)

    class ToReporter(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            reporter.log("info", record.name, record.getMessage())

    handler = ToReporter(logging.DEBUG)
    root = logging.getLogger()
    before = root.level
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    try:
        for step in range(5):
            reporter.metrics(step, {"a": 1})
            until(lambda: reporter.acknowledged == reporter.seq)
        assert reporter.close()
    finally:
        root.removeHandler(handler)
        root.setLevel(before)
    assert [event["type"] for event in ingest.events()] == ["metrics"] * 5


def test_heartbeats_are_sent_without_other_events(
    tmp_path: Path, url: str, ingest: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reporter_module, "PROGRESS_SECONDS", 0.01)
    reporter = make(tmp_path, url)
    reporter.iteration = 3
    until(lambda: any(event["type"] == "heartbeat" for event in ingest.events()))
    reporter.close()
    assert {event["iteration"] for event in ingest.events()} == {3}


CHILD = """
import sys
from pathlib import Path
from workers.storage.folders import RunFolder
from workers.reporting.reporter import Reporter
reporter = Reporter(RunFolder(Path(sys.argv[1])), "run1", 1)
step = 0
while True:
    step += 1
    reporter.metrics(step, {"a": step})
    if step % 100 == 0:
        print(step, flush=True)
"""


def test_what_was_reported_survives_kill_9(tmp_path: Path, url: str, ingest: Any) -> None:
    command = [sys.executable, "-c", CHILD, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout
        said = 0
        while said < 2000:
            said = int(child.stdout.readline())
        os.kill(child.pid, signal.SIGKILL)
        said = max([said, *[int(line) for line in child.stdout.read().split()]])
    (spool,) = tmp_path.glob("attempt-1/spool/*.jsonl")
    with spool.open("ab") as file:
        file.write(b'{"run":"run1","attempt":1,"seq":99')  # a torn last line
    assert ship_spool(tmp_path, url, "secret").events >= said
    steps = [event["step"] for event in ingest.events()]
    assert steps == list(range(1, len(steps) + 1))
    assert len(steps) >= said


def test_few_steps_are_delivered_immediately_and_many_in_larger_batches(
    tmp_path: Path, url: str, ingest: Any
) -> None:
    def told() -> int:
        return sum(event["type"] == "metrics" for event in ingest.events())

    reporter = make(tmp_path, url)
    for step in range(3):
        reporter.metrics(step, {"a": 1.0})
        until(lambda: told() == step + 1)  # noqa: B023  # called before the next one
    alone = ingest.batches
    for step in range(2000):
        reporter.metrics(3 + step, {"a": 1.0})
    assert reporter.close()
    assert told() == 2003 and alone >= 3 and ingest.batches - alone < 50
