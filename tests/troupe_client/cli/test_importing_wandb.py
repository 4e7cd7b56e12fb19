"""`troupe import wandb` with a recorded run, and a mirrored program at a server."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.architecture.source import ROOT
from tests.troupe_client.cli.conftest import Troupe
from tests.troupe_client.cli.test_imports import until
from troupe_client.server_api import find_server
from webapp.metrics.models import Series
from webapp.runs.models import Run

RECORDED = Path(__file__).parents[1] / "reporting" / "offline-run"


def points(run: str, key: str) -> list[list[float]]:
    """[step, value] of a metric."""
    series = find_server().call(f"/api/v1/runs/{run}/series/", keys=key)["series"][key]
    return [list(point) for point in zip(series["steps"], series["values"], strict=True)]


def test_a_run_of_wandb_is_imported_once(connected: str, troupe: Troupe, tmp_path: Path) -> None:
    shutil.copytree(RECORDED, tmp_path / "wandb" / "offline-run")
    (file,) = tmp_path.rglob("*.wandb")
    whole = file.read_bytes()
    counts = []
    for size in (len(whole) * 2 // 3, len(whole), len(whole)):  # while the program runs, and afterwards
        file.write_bytes(whole[:size])
        result = troupe("import", "wandb", str(tmp_path / "wandb"), "--tag", "old", "--json")
        assert result.status == 0, result.err
        (made,) = json.loads(result.out)
        run = Run.objects.get()
        assert run.state == ("finished" if size == len(whole) else "running")
        counts.append((made["values"], run.event_count))
    assert counts[0][0] < counts[1][0] == 22 and counts[1] == counts[2]
    assert made["left_out"]["html-file"] == 1
    assert (run.state, run.iteration, run.name) == ("finished", 10, "first")
    assert run.config["client"] == {"lr": 0.001, "model": {"layers": 2}, "completed": 5}
    assert run.tags == ["a", "group:g", "job:train", "old", "wandb", "wandb project:demo"]
    assert points(run.pk, "loss") == [[0, 1.0], [1, 0.5], [2, 1 / 3], [10, 0.25]]
    media = find_server().call(f"/api/v1/runs/{run.pk}/media/")
    assert {"weights", "picture", "rows"} <= set(json.dumps(media).split('"'))


PROGRAM = """
import time
import troupe

troupe.sync_wandb(project="lab")
import wandb

with wandb.init(name="long", config={"lr": 0.5}, id="mine", resume="allow") as run:
    while True:
        run.log({"loss": 0.25})
        time.sleep(0.05)
"""


IN_BACKGROUND = ("sh", "-c", 'trap "" INT; exec "$@"', "sh")
"""A script's way to start a program in the background: it ignores SIGINT."""


@pytest.mark.extended
@pytest.mark.parametrize("started_by", [(), IN_BACKGROUND], ids=["foreground", "background"])
def test_stop_ends_a_mirrored_program(connected: str, tmp_path: Path, started_by: tuple[str, ...]) -> None:
    env = os.environ | {"TROUPE_URL": connected, "PYTHONPATH": str(ROOT), "WANDB_SILENT": "true"}
    env |= {"TROUPE_DIR": str(tmp_path)}
    command = [*started_by, sys.executable, "-c", PROGRAM]
    with subprocess.Popen(command, env=env, cwd=tmp_path, stderr=subprocess.PIPE) as program:
        try:
            run = until(Run.objects.first)
            until(Series.objects.filter(run=run.pk, key="loss").exists)
            find_server().call(f"/api/v1/runs/{run.pk}/stop/", {})
            _, printed = program.communicate(timeout=120)
        finally:
            program.kill()
    assert b"KeyboardInterrupt" in printed
    until(lambda: Run.objects.get(pk=run.pk).state == "stopped")
    run.refresh_from_db()
    assert (run.name, run.state, run.config["client"]) == ("long", "stopped", {"lr": 0.5})
    assert {value for _, value in points(run.pk, "loss")} == {0.25}
