"""Runs of Weights & Biases in Troupe: mirrored while an unmodified program runs, and imported from its files."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from socketserver import BaseRequestHandler, ThreadingTCPServer
from threading import Thread
from typing import Any

import pytest

import troupe
from tests.architecture.source import ROOT
from training_core.errors import TroupeError
from troupe_client.reporting.from_wandb import runs_of
from troupe_client.reporting.importing import ImportedRun, stable_id
from troupe_client.reporting.media import Histogram, Image, Table, Text
from troupe_client.reporting.wandb_axes import Axes
from troupe_client.reporting.wandb_mirror import Mirror
from troupe_client.reporting.wandb_values import MARK, crossing, run_id_of, summary_rest

PROGRAM = Path(__file__).parent / "wandb_program.py"
RECORDED = Path(__file__).parent / "offline-run"
"""What the program has written, in W&B 0.31."""
SYNC = """
import runpy, sys, troupe
troupe.sync_wandb(project="lab", tags=["mirrored"])
sys.argv = ["program", sys.argv[2]]
runpy.run_path({program!r}, run_name="__main__")
"""
Event = Mapping[str, Any]


def mirrored(folder: Path, how: str = "", **environment: str) -> tuple[list[Event], Event, str]:
    """Run the program with the mirror; return its events, its request, and what it has printed."""
    env = os.environ | {
        "TROUPE_MODE": "offline", "TROUPE_DIR": str(folder), "PYTHONPATH": str(ROOT), "WANDB_SILENT": "true",
    } | environment  # fmt: skip
    command = [sys.executable, "-c", SYNC.format(program=str(PROGRAM)), "program", how]
    done = subprocess.run(command, env=env, cwd=folder, capture_output=True, text=True, check=False)
    (run,) = (folder / "runs").iterdir()
    (spool,) = run.rglob("spool/*.jsonl")
    events = [json.loads(line) for line in spool.read_text().splitlines()]
    return events, json.loads((run / "client.json").read_text()), done.stderr


def values_of(events: list[Event]) -> dict[tuple[int, str], Any]:
    """Numbers and media by step and name."""
    out: dict[tuple[int, str], Any] = {}
    for event in events:
        if event["type"] == "metrics":
            out |= {(event["step"], name): value for name, value in event["values"].items()}
        elif event["type"] == "media":
            out[event["step"], event["name"]] = event["values"]
    return out


def check_values(values: Mapping[tuple[int, str], Any]) -> None:
    """Compare with what the program says."""
    numbers = {at: value for at, value in values.items() if not isinstance(value, list)}
    expected: dict[tuple[int, str], Any] = {
        (0, "loss"): 1, (1, "loss"): 0.5, (2, "loss"): 1 / 3, (10, "loss"): 0.25, (10, "acc"): 0.5,
        (0, "deep/x"): 0, (1, "deep/x"): 1, (2, "deep/x"): 2, (3, "strange"): "NaN", (3, "infinite"): "Infinity",
        (10, "best"): 0.75,
    }  # fmt: skip
    for step, value in enumerate((0.1, 0.9, 0.4)):
        expected[step, "acc"] = pytest.approx(value, abs=1e-7)
    expected[10, "acc/max"] = pytest.approx(0.9, abs=1e-7)
    assert numbers == expected
    media = {at: value for at, value in values.items() if isinstance(value, list)}
    names = {(4, "weights"), (4, "picture"), (4, "pictures"), (4, "rows"), (4, "line_table")}
    assert set(media) == names | {(3, "text"), (10, "verdict")}
    (weights,), (rows,) = media[4, "weights"], media[4, "rows"]
    assert weights["counts"] == [5, 5] and weights["edges"] == [0, 4.5, 9]
    assert rows["columns"] == ["a", "b"] and rows["rows"] == [[1, "x"], [2.5, None]]
    assert [item["caption"] for item in media[4, "pictures"]] == ["1", "2"]
    assert media[4, "picture"][0]["data"] and media[10, "verdict"][0]["text"] == "good"


class Contacts(BaseRequestHandler):
    """Counts connections."""

    count = 0

    def handle(self) -> None:
        Contacts.count += 1


@pytest.mark.slow
def test_the_mirror_has_what_the_program_tells_wandb_which_stays_offline(tmp_path: Path) -> None:
    with ThreadingTCPServer(("127.0.0.1", 0), Contacts) as outside:
        Thread(target=outside.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{outside.server_address[1]}"
        proxies = {"HTTPS_PROXY": address, "HTTP_PROXY": address, "ALL_PROXY": address, "NO_PROXY": ""}
        events, request, printed = mirrored(
            tmp_path, WANDB_BASE_URL=address, WANDB_API_KEY="0" * 40, **proxies
        )
        outside.shutdown()
    assert Contacts.count == 0
    check_values(values_of(events))
    assert request["config"] == {"lr": 0.001, "model": {"layers": 2}, "completed": 5}
    assert (request["name"], request["notes"], request["group"], request["project"]) == (
        "first",
        "a note",
        "g",
        "lab",
    )
    assert request["tags"] == ["a", "wandb project:demo", "job:train", "mirrored"]
    assert [event["message"] for event in events if event["type"] == "log"] == ["title: text"]
    assert (events[-1]["state"], events[-1]["iteration"]) == ("finished", 11)
    for left_out in ("none (NoneType)", "page (html-file)"):
        assert printed.count(left_out) == 1, left_out

    (file,) = tmp_path.rglob("run-*.wandb")
    assert not list(runs_of(tmp_path)), "a mirrored run is not imported"
    (file.parent / MARK).unlink()
    (imported,) = runs_of(tmp_path)
    assert values_of(decoded(imported)) == values_of(events)


@pytest.mark.extended
@pytest.mark.parametrize(
    ("how", "message"),
    [("error", "ValueError: no luck"), ("block", "ValueError: in the block")]
    + [("code", "exit code 3"), ("exit", "exit code 4")],
)
def test_the_mirrored_run_ends_as_the_program_does(how: str, message: str, tmp_path: Path) -> None:
    events, _, _ = mirrored(tmp_path, how)
    check_values(values_of(events))
    ends = [event for event in events if event["type"] == "status"][1:]
    assert [(end["state"], end["message"]) for end in ends] == [("failed", message)]


@pytest.mark.extended
def test_the_mirror_reports_later_changes_of_the_config(tmp_path: Path) -> None:
    _, request, _ = mirrored(tmp_path, "config")
    assert request["config"] == {"lr": 0.001, "model": {"layers": 2}, "completed": 5, "late": {"x": 1}}


def test_a_program_that_asks_for_online_mode_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WANDB_MODE", "online")
    with pytest.raises(TroupeError, match="WANDB_MODE"):
        troupe.sync_wandb()
    monkeypatch.setenv("WANDB_MODE", "offline")
    init = Mirror(troupe.init)._init(lambda **options: options)
    assert init(project="demo") == {"project": "demo", "mode": "offline"}
    assert init(mode="disabled") == {"mode": "disabled"}
    with pytest.raises(TroupeError, match="mode='online'"):
        init(mode="online")


def decoded(run: ImportedRun) -> list[Event]:
    return [json.loads(event) for events in run.events.values() for event in events]


def test_a_recorded_run_is_imported_with_all_its_values() -> None:
    (run,) = runs_of(RECORDED)
    events = decoded(run)
    check_values(values_of(events))
    assert run.count == len(values_of(events)) == 22
    assert (run.name, run.notes, run.state, run.last) == ("first", "a note", "finished", 10)
    assert run.config == {"lr": 0.001, "model": {"layers": 2}, "completed": 5}
    assert run.tags == ["a", "wandb project:demo", "job:train", "group:g"]
    assert [event["message"] for event in events if event["type"] == "log"] == ["title: text"]
    assert {kind: run.left_out[kind] for kind in ("html-file", "NoneType")} == {"html-file": 1, "NoneType": 1}
    assert all(event["time"] > 1.7e9 for event in events)


def test_a_file_that_is_still_written_gives_the_first_events(tmp_path: Path) -> None:
    (file,) = RECORDED.glob("*.wandb")
    whole = file.read_bytes()
    (complete,) = runs_of(RECORDED)
    seen = set()
    for size in range(700, len(whole), 97):
        (tmp_path / file.name).write_bytes(whole[:size])
        for run in runs_of(tmp_path):
            texts = [event for event in run.events.get("history", []) if b'"metrics"' in event]
            all_of_them = [event for event in complete.events["history"] if b'"metrics"' in event]
            assert texts == all_of_them[: len(texts)] and "summary" not in run.events
            assert run.identity == complete.identity and run.state == "running"
            seen.add(len(texts))
    assert seen == {0, 1, 2, 3, 4, 5}


def test_another_file_is_refused_and_a_damaged_one_is_read_up_to_the_damage(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (file,) = RECORDED.glob("*.wandb")
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    (tmp_path / file.name).write_bytes(data)
    (run,) = runs_of(tmp_path)
    (complete,) = runs_of(RECORDED)
    assert 0 < run.count < complete.count and "is damaged at byte" in caplog.text
    (tmp_path / file.name).write_bytes(b"something else")
    skipped: dict[str, str] = {}
    assert not list(runs_of(tmp_path, skipped))
    assert "not a file of W&B" in skipped[str(tmp_path / file.name)]


def test_records_longer_than_a_block_are_joined(tmp_path: Path) -> None:
    """Written as by LevelDB: a record fills the rest of its block, and goes on in the next ones."""
    from zlib import crc32

    from wandb.proto.wandb_internal_pb2 import Record

    begin = Record()
    begin.run.run_id, begin.run.project = "abc", "demo"
    for number in range(4000):
        item = begin.run.config.update.add()
        item.key, item.value_json = f"field {number}", json.dumps("x" * 20)
    record, data = begin.SerializeToString(), bytearray(b":W&B\xe1\xbe\x00")
    rest = record
    while rest:
        room = 32768 - len(data) % 32768 - 7
        part, rest = rest[:room], rest[room:]
        kind = {(True, True): 1, (True, False): 2, (False, False): 3, (False, True): 4}[
            len(data) == 7, not rest
        ]
        data += (
            crc32(bytes([kind]) + part).to_bytes(4, "little")
            + len(part).to_bytes(2, "little")
            + bytes([kind])
        )
        data += part
    (tmp_path / "run-abc.wandb").write_bytes(data)
    (run,) = runs_of(tmp_path)
    assert len(record) > 3 * 32768 and len(run.config) == 4000


def test_media_of_wandb_become_those_of_troupe(tmp_path: Path) -> None:
    (tmp_path / "table.json").write_text('{"columns": ["a"], "data": [[{"_type": "image-file"}], [1]]}')
    (tmp_path / "pixel.png").write_bytes(b"\x89PNG\r\n\x1a\n")
    values = {
        "packed": {"_type": "histogram", "packedBins": {"min": -1, "size": 0.5, "count": 3}, "values": [1, 2, 3]},
        "table": {"_type": "table-file", "path": "table.json"},
        "deep": {"picture": {"_type": "image-file", "path": "pixel.png", "caption": None}},
        "word": "text", "flag": True, "_step": 3,
        "outside": {"_type": "table-file", "path": "../table.json"},
        "gone": {"_type": "image-file", "path": "gone.png"},
        "same": {"_type": "histogram", "bins": [0, 0, 2, 2], "values": [3, 1, 2]},
        "sound": {"_type": "audio-file", "path": "x.wav"}, "list": [1, 2],
        "many": {"_type": "images/separated", "filenames": ["pixel.png"] * 40},
    }  # fmt: skip
    left_out: dict[str, str] = {}
    out = crossing(values, tmp_path, left_out)
    packed, table, picture, word = out["packed"], out["table"], out["deep/picture"], out["word"]
    assert isinstance(packed, Histogram) and packed.edges == [-1, -0.5, 0, 0.5] and packed.counts == [1, 2, 3]
    assert isinstance(table, Table) and table.rows == [["(image-file)"], [1]]
    assert isinstance(picture, Image) and isinstance(word, Text) and out["flag"] is True
    same = out["same"]
    assert isinstance(same, Histogram) and same.counts == [3, 1, 2]
    assert same.edges == pytest.approx([0, 0, 2, 2], abs=1e-8) and same.edges == sorted(set(same.edges))
    assert set(out) == {"packed", "table", "deep/picture", "word", "flag", "same"}
    assert set(left_out) == {"outside", "gone", "sound", "list", "many"}


def test_the_summary_adds_what_is_not_the_last_value() -> None:
    logged = {"loss": 0.5, "nan": float("nan"), "word": Text("a")}
    summary = {
        "loss": 0.5, "nan": float("nan"), "word": "a", "acc": {"max": 0.9}, "best": 1, "verdict": "b", "_step": 7,
        "weights": {"_type": "histogram", "bins": [0, 1], "values": [3]},
    }  # fmt: skip
    rest = summary_rest(summary, logged)
    assert set(rest) == {"acc/max", "best", "verdict"} and rest["acc/max"] == 0.9


def test_values_have_the_steps_of_their_step_metric() -> None:
    axes = Axes()
    axes.define("train/global_step", "")
    axes.define("*", "train/global_step")
    axes.define("eval/*", "epoch")
    axes.define("deep.x", "_step")
    assert axes.split({"loss": 1.0, "train/global_step": 5}, 70) == {5: {"loss": 1.0, "train/global_step": 5}}
    assert axes.split({"loss": 2.0}, 71) == {5: {"loss": 2.0}}, "the last step, which W&B adds"
    assert axes.split({"deep/x": 1, "eval/acc": 0.5}, 72) == {72: {"deep/x": 1, "eval/acc": 0.5}}
    assert axes.waiting({"loss": 1.0, "eval/acc": 1, "deep/x": 0}) == {"loss", "eval/acc"}
    row = {"eval/acc": 0.5, "epoch": 2, "loss": 3.0}
    assert axes.split(row, 73) == {2: {"eval/acc": 0.5, "epoch": 2}, 5: {"loss": 3.0}}
    fraction = {"eval/acc": 0.5, "epoch": 2.5}
    assert axes.split(fraction, 74) == {74: fraction}


AXIS_PROGRAM = """
import sys
if sys.argv[1] == "mirror":
    import troupe
    troupe.sync_wandb()
import wandb
part = int(sys.argv[2])
resume = None if sys.argv[1] == "mirror" else "allow"
run = wandb.init(project="p", name="resumed", id="same", resume=resume)
run.define_metric("train/global_step")
run.define_metric("*", step_metric="train/global_step", step_sync=True)
for step in ((1, 2, 3), (2, 4))[part]:
    run.log({"loss": step + part}, commit=False)
    run.log({"train/global_step": step})
    run.log({"grad": step})
run.finish()
"""


@pytest.mark.slow
def test_step_metrics_and_resumed_runs_cross_by_import_and_by_mirror(tmp_path: Path) -> None:
    env = os.environ | {"WANDB_MODE": "offline", "WANDB_SILENT": "true", "PYTHONPATH": str(ROOT)}
    env |= {
        "WANDB_ERROR_REPORTING": "false",
        "TROUPE_MODE": "offline",
        "TROUPE_DIR": str(tmp_path / "troupe"),
    }
    (tmp_path / "offline").mkdir()
    for how, part in (("offline", "0"), ("offline", "1"), ("mirror", "0")):
        folder = tmp_path / how
        folder.mkdir(exist_ok=True)
        subprocess.run([sys.executable, "-c", AXIS_PROGRAM, how, part], env=env, cwd=folder, check=True)
    (run,) = runs_of(tmp_path / "offline")
    first = {(step, name): step for step in (1, 2, 3) for name in ("loss", "train/global_step", "grad")}
    assert values_of(decoded(run)) == first
    (later,) = run.later
    assert values_of(decoded(later)) == {
        (2, "loss"): 3, (2, "train/global_step"): 2, (2, "grad"): 2,
        (4, "loss"): 5, (4, "train/global_step"): 4, (4, "grad"): 4,
    }  # fmt: skip
    assert (later.first, later.last, run_id_of("p", "same")) == (2, 4, stable_id(run.identity))
    (spool,) = (tmp_path / "troupe").rglob("spool/*.jsonl")
    assert values_of([json.loads(line) for line in spool.read_text().splitlines()]) == first
