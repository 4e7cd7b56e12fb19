"""`troupe tensorboard import` with files of torch's SummaryWriter."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from torch.utils.tensorboard.writer import SummaryWriter

from tests.troupe_client.cli.conftest import Troupe
from troupe_client.server_api import find_server
from webapp.runs.models import Run


def write(folder: Path, steps: range) -> None:
    with SummaryWriter(str(folder)) as writer:  # type: ignore[no-untyped-call]
        for step in steps:
            writer.add_scalar("rollout/ep_rew_mean", step / 4, step)  # type: ignore[no-untyped-call]


def points(run: str) -> str:
    return json.dumps(find_server().call(f"/api/v1/runs/{run}/series/", keys="rollout/ep_rew_mean"))


def test_a_repeated_import_adds_new_values_only(connected: str, troupe: Troupe, tmp_path: Path) -> None:
    write(tmp_path / "logs" / "a", range(5))
    write(tmp_path / "logs" / "b", range(3))
    result = troupe("tensorboard", "import", str(tmp_path / "logs"), "--json")
    assert result.status == 0, result.err
    made = {item["name"]: item for item in json.loads(result.out)}
    assert {name: item["values"] for name, item in made.items()} == {"a": 5, "b": 3}
    first = Run.objects.get(pk=made["a"]["run"])
    assert (first.state, first.iteration, first.tags) == ("finished", 4, ["tensorboard"])
    events, seen = first.event_count, points(first.pk)
    assert "1.0" in seen and "1.25" not in seen

    troupe("tensorboard", "import", str(tmp_path / "logs"))
    first.refresh_from_db()
    assert first.event_count == events and Run.objects.count() == 2

    write(tmp_path / "logs" / "a", range(5, 7))
    troupe("tensorboard", "import", str(tmp_path / "logs"))
    assert "1.5" in points(first.pk) and Run.objects.count() == 2
    first.refresh_from_db()
    assert (first.state, first.iteration, first.attempts.count()) == ("finished", 6, 1)


def valid_points(run: str) -> dict[int, float]:
    """Value by step, as charts show it: of the last attempt that has the step."""
    series = find_server().call(f"/api/v1/runs/{run}/series/", keys="loss")["series"]["loss"]
    starts = {
        attempt: step
        for step, attempt in reversed(list(zip(series["steps"], series["attempts"], strict=True)))
    }
    columns = zip(series["steps"], series["values"], series["attempts"], strict=True)
    valid = [
        (step, value)
        for step, value, attempt in columns
        if not any(later > attempt and step >= start for later, start in starts.items())
    ]
    assert len(dict(valid)) == len(valid)
    return dict(valid)


def resume(folder: Path, steps: range, sign: int, number: int, **options: int) -> None:
    """Write the event file of a process that was resumed."""
    with SummaryWriter(str(folder), filename_suffix=f".{number}", **options) as writer:  # type: ignore[no-untyped-call]
        for step in steps:
            writer.add_scalar("loss", sign * step, step)  # type: ignore[no-untyped-call]


def test_resumed_training_has_one_value_at_each_step(connected: str, troupe: Troupe, tmp_path: Path) -> None:
    folder = tmp_path / "logs"
    resume(folder, range(16), 1, 1)
    run = json.loads(troupe("tensorboard", "import", str(folder), "--json").out)[0]["run"]
    resume(folder, range(16, 18), 1, 2)  # goes on: no step is repeated
    resume(folder, range(10, 21), -1, 3, purge_step=10)
    for _ in range(2):
        troupe("tensorboard", "import", str(folder))
        assert valid_points(run) == {step: float(step if step < 10 else -step) for step in range(21)}
        row = Run.objects.get(pk=run)
        assert (row.state, row.iteration, row.attempts.count()) == ("finished", 20, 2)
    resume(folder, range(5, 7), 1, 4)
    troupe("tensorboard", "import", str(folder))
    row.refresh_from_db()
    assert len(valid_points(run)) == 7
    assert (row.state, row.iteration, row.attempts.count()) == (
        "finished",
        6,
        3,
    )
    begun = row.attempts.order_by("number").values_list("resumed_iteration", flat=True)
    assert list(begun) == [0, 10, 5], "the page marks the first step of each attempt"


def test_a_folder_without_event_files_is_refused(connected: str, troupe: Troupe, tmp_path: Path) -> None:
    result = troupe("tensorboard", "import", str(tmp_path))
    assert result.status == 1 and "no TensorBoard event files" in result.err


def test_media_and_hyperparameters_are_imported_and_the_rest_is_counted(
    connected: str, troupe: Troupe, tmp_path: Path
) -> None:
    with SummaryWriter(str(tmp_path / "logs")) as writer:  # type: ignore[no-untyped-call]
        for step in range(2):
            writer.add_scalar("loss", 0.5, step)  # type: ignore[no-untyped-call]
            writer.add_histogram("weights", np.array([0.0, 0.0, 1.0, 4.0]), step, bins=[0, 1, 2, 3, 4])  # type: ignore[no-untyped-call]
            writer.add_histogram("equal", np.full(7, 3.0), step)  # type: ignore[no-untyped-call]
            writer.add_histogram("fine", np.arange(2000.0), step, bins=range(2001))  # type: ignore[no-untyped-call]
            writer.add_text("note", f"step *{step}*", step)  # type: ignore[no-untyped-call]
            writer.add_image("picture", np.zeros((3, 4, 5)), step)  # type: ignore[no-untyped-call]
            writer.add_audio("sound", np.zeros((1, 800)), step)  # type: ignore[no-untyped-call]
            writer.add_pr_curve("curve", np.array([0, 1]), np.array([0.5, 0.6]), step)  # type: ignore[no-untyped-call]
        writer.add_hparams({"lr": 0.5, "net": "mlp", "on": True}, {"best": 1.0}, run_name="tuned")  # type: ignore[no-untyped-call]
    for _ in range(2):
        result = troupe("tensorboard", "import", str(tmp_path / "logs"), "--json")
        assert result.status == 0, result.err
        made = {item["name"]: item for item in json.loads(result.out)}
        assert made["logs"]["values"] == 12 and made["logs"]["left_out"] == {"audio": 2, "pr_curves": 2}
        run = made["logs"]["run"]
        media = {name: media_values(run, name) for name in ("weights", "equal", "fine", "note", "picture")}
        assert {name: len(values) for name, values in media.items()} == dict.fromkeys(media, 2)
    weights, equal, fine = (contents(run, media[name][0]) for name in ("weights", "equal", "fine"))
    assert sum(weights["counts"]) == 4 and weights["edges"][0] == 0 and weights["edges"][-1] == 4
    assert weights["counts"][0] == 2 and weights["counts"][-1] == 1
    assert equal["counts"] == [7] and equal["edges"][0] < 3 < equal["edges"][1]
    assert sum(fine["counts"]) == 2000 and len(fine["counts"]) <= 512
    assert contents(run, media["note"][1]) == {"text": "step *1*"}
    tuned = Run.objects.get(pk=made["tuned"]["run"])
    assert tuned.config["client"].items() >= {"lr": 0.5, "net": "mlp", "on": True}.items()


def media_values(run: str, name: str) -> list[dict[str, Any]]:
    values: list[dict[str, Any]] = find_server().call(f"/api/v1/runs/{run}/media/", name=name)["results"]
    return values


def contents(run: str, value: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = find_server().call(f"/api/v1/runs/{run}/media/{value['id']}/")
    return found


def until(condition: Callable[[], Any]) -> Any:
    """Wait for a true result."""
    end = time.monotonic() + 60
    while not (result := condition()):
        assert time.monotonic() < end
        time.sleep(0.1)
    return result


@pytest.mark.extended
def test_files_are_followed_until_told_to_stop(connected: str, tmp_path: Path) -> None:
    env = os.environ | {"TROUPE_URL": connected, "TROUPE_HOME": str(tmp_path / "home")}
    logs = tmp_path / "logs"
    logs.mkdir()
    command = [
        sys.executable,
        "-m",
        "troupe_client.cli.app",
        "tensorboard",
        "import",
        str(logs),
        "--follow",
        "--json",
    ]
    program = subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        with SummaryWriter(str(logs / "a")) as writer:  # type: ignore[no-untyped-call]
            for step in range(3):
                writer.add_scalar("rollout/ep_rew_mean", step / 4, step)  # type: ignore[no-untyped-call]
                writer.flush()  # type: ignore[no-untyped-call]
                run = until(Run.objects.first)
                until(lambda step=step, run=run: str(step / 4) in points(run.pk))
                run.refresh_from_db()
                assert run.state == "running"
            write(logs / "b", range(2))
            until(lambda: Run.objects.count() == 2)
            writer.add_scalar("rollout/ep_rew_mean", 0.75, 3)  # type: ignore[no-untyped-call]
        program.send_signal(signal.SIGINT)
        out, err = program.communicate(timeout=60)
    finally:
        program.kill()
        program.wait()
    assert program.returncode == 0, err
    assert {item["name"]: item["values"] for item in json.loads(out)} == {"a": 4, "b": 2}
    run.refresh_from_db()
    assert (run.state, run.iteration) == ("finished", 3)
    events = run.event_count
    again = subprocess.run([*command[:-2], "--json"], env=env, capture_output=True, text=True, check=True)
    run.refresh_from_db()
    assert run.event_count == events and Run.objects.count() == 2 and len(json.loads(again.stdout)) == 2


def test_damage_of_a_file_is_named_with_the_number_of_records(
    connected: str, troupe: Troupe, tmp_path: Path
) -> None:
    for name in "ab":
        write(tmp_path / name, range(6))
    (file,) = (tmp_path / "a").glob("*tfevents*")
    data = bytearray(file.read_bytes())
    starts, at = [], 0
    while at < len(data):
        starts.append(at)
        at += int.from_bytes(data[at : at + 8], "little") + 16
    data[starts[4] + 14] ^= 1  # the header of the file, and three values before it
    file.write_bytes(data)
    result = troupe("tensorboard", "import", str(tmp_path), "--json")
    made = {item["name"]: item["values"] for item in json.loads(result.out)}
    assert made == {"a": 3, "b": 6} and result.status == 1
    told = " ".join(result.err.split())
    assert f"{file.name} is damaged at byte {starts[4]}" in told and "3 records from there on" in told
    assert set(Run.objects.values_list("state", flat=True)) == {"finished"}
