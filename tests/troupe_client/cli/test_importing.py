"""`troupe import mlflow` and `troupe import csv`: the values of the files, once."""

import json
import os
import sqlite3
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.troupe_client.cli.conftest import Troupe
from tests.workers.gateway.environments import client_python
from troupe_client.documents.launches import typed
from troupe_client.reporting import from_csv, importing
from troupe_client.reporting.importing import stable_id
from troupe_client.server_api import find_server
from webapp.artifacts.models import Artifact
from webapp.runs.models import Run
from workers.telemetry.delivery import Undelivered

MLFLOW_PROGRAM = """
import os, sys, mlflow
mlflow.set_tracking_uri(sys.argv[1])
mlflow.set_experiment("tuning")
with mlflow.start_run(run_name="bold ant", description="first try"):
    mlflow.log_params({"lr": 1e-5, "model/name": "tiny\\nsecond", "flag": True})
    mlflow.set_tag("team", "red")
    for step, loss in enumerate((1.0, 0.5, float("nan"))):
        mlflow.log_metric("train/loss", loss, step=step)
    mlflow.log_metric("best", float("inf"), step=-1)
    mlflow.log_text("first", "texts/a.txt")
    mlflow.log_text("second", "b.txt")
    with mlflow.start_run(nested=True, run_name="child"):
        mlflow.log_metric("x", 1.0)
try:
    with mlflow.start_run(run_name="broken"):
        raise ValueError
except ValueError:
    mlflow.start_run(run_name="alive")
os._exit(0)
"""


def imported(troupe: Troupe, *words: str) -> dict[str, dict[str, Any]]:
    """What the command reports, by the run's name."""
    result = troupe("import", *words, "--json")
    assert result.status == 0, result.err
    return {item["name"]: item for item in json.loads(result.out)}


def points(run: str, key: str) -> list[list[Any]]:
    """[step, value] of a metric."""
    series = find_server().call(f"/api/v1/runs/{run}/series/", keys=key)["series"][key]
    return [list(point) for point in zip(series["steps"], series["values"], strict=True)]


def file_store(folder: Path, losses: list[str], status: int = 3) -> None:
    """A run as MLflow writes it into mlruns."""
    run = folder / "7" / "ab12"
    for path, text in {
        folder / "7" / "meta.yaml": "experiment_id: '7'\nname: tuning\n",
        run / "meta.yaml": f"run_id: ab12\nrun_name: bold-ant\nstatus: {status}\nlifecycle_stage: active\n",
        run / "params" / "optimizer" / "lr": "0.001",
        run / "params" / "model": "tiny",
        run / "tags" / "mlflow.note.content": "first try",
        run / "tags" / "team": "red",
        run / "artifacts" / "plots" / "a.txt": "a plot",
        run / "metrics" / "train" / "loss": "".join(f"{line}\n" for line in losses),
        folder
        / "7"
        / "cd34"
        / "meta.yaml": "run_id: cd34\nrun_name: gone\nlifecycle_stage: deleted\nstatus: 3\n",
    }.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def test_a_folder_of_mlflow_is_imported_once(connected: str, troupe: Troupe, tmp_path: Path) -> None:
    losses = ["1700000000000 0.5 0", "1700000001000 nan 1", "1700000001500 0.25 1"]
    file_store(tmp_path / "mlruns", losses)
    (made,) = imported(troupe, "mlflow", str(tmp_path / "mlruns"), "--tag", "old").values()
    assert (made["name"], made["values"]) == ("bold-ant", 3)
    run = Run.objects.get(pk=made["run"])
    assert run.config["client"] == {"model": "tiny", "optimizer/lr": 0.001}
    assert run.tags == ["group:tuning", "mlflow", "old", "team:red"]
    assert run.run_notes.get().text == "first try"
    assert points(run.pk, "train/loss") == [[0, 0.5], [1, "NaN"], [1, 0.25]]

    file_store(tmp_path / "mlruns", [*losses, "1700000002000 0.125 2"])
    (tmp_path / "mlruns" / "7" / "ab12" / "params" / "late").write_text("7")
    for _ in range(2):
        imported(troupe, "mlflow", str(tmp_path / "mlruns"))
    assert points(run.pk, "train/loss") == [[0, 0.5], [1, "NaN"], [1, 0.25], [2, 0.125]]
    run.refresh_from_db()
    assert (run.state, run.iteration, Run.objects.count()) == ("finished", 2, 1)
    assert run.config["client"] == {"model": "tiny", "optimizer/lr": 0.001, "late": 7}
    (file,) = Artifact.objects.get(name=f"run-{run.pk}").versions.get().files.all()
    assert (file.path, file.size) == ("plots/a.txt", 6)


def test_a_database_of_mlflow_is_imported_once(connected: str, troupe: Troupe, tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "mlflow.db") as database:
        database.executescript("""
            CREATE TABLE experiments (experiment_id INTEGER, name TEXT);
            CREATE TABLE runs (run_uuid TEXT, name TEXT, status TEXT, lifecycle_stage TEXT, start_time INT, experiment_id INT,
                artifact_uri TEXT);
            CREATE TABLE params (key TEXT, value TEXT, run_uuid TEXT);
            CREATE TABLE tags (key TEXT, value TEXT, run_uuid TEXT);
            CREATE TABLE metrics (key TEXT, value REAL, timestamp INT, step INT, is_nan INT, run_uuid TEXT);
            INSERT INTO experiments VALUES (1, 'tuning');
            INSERT INTO runs VALUES ('ab', 'bold-ant', 'KILLED', 'active', 1, 1, 'file:///etc'),
                ('cd', 'gone', 'FINISHED', 'deleted', 2, 1, '');
            INSERT INTO params VALUES ('lr', '1e-05', 'ab');
            INSERT INTO metrics VALUES ('loss', 0.5, 1000, 0, 0, 'ab'), ('loss', 0, 2000, 1, 1, 'ab'), ('loss', 9, 1000, 0, 0, 'cd');
        """)
    for _ in range(2):
        (made,) = imported(troupe, "mlflow", str(tmp_path / "mlflow.db")).values()
        run = Run.objects.get(pk=made["run"])
        assert (run.name, run.state, run.config["client"]) == ("bold-ant", "stopped", {"lr": 1e-05})
        assert points(run.pk, "loss") == [[0, 0.5], [1, "NaN"]]
        assert made["left_out"] and not Artifact.objects.exists(), "a folder elsewhere is not read"


@pytest.mark.extended
@pytest.mark.parametrize("store", ["mlruns", "mlflow.db"])
def test_files_that_mlflow_itself_has_written_are_imported(
    connected: str, troupe: Troupe, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, store: str
) -> None:
    uri = {"mlruns": f"file://{tmp_path}/mlruns", "mlflow.db": f"sqlite:///{tmp_path}/mlflow.db"}[store]
    quiet = {"MLFLOW_DISABLE_TELEMETRY": "true", "MLFLOW_ALLOW_FILE_STORE": "true"}
    program = [client_python("mlflow", tmp_path_factory), "-c", MLFLOW_PROGRAM, uri]
    done = subprocess.run(
        program, cwd=tmp_path, env=os.environ | quiet, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    for _ in range(2):
        made = imported(troupe, "mlflow", str(tmp_path / store))
    states = dict(Run.objects.values_list("name", "state"))
    assert states == {"bold ant": "finished", "child": "finished", "broken": "failed", "alive": "running"}
    assert not any(item["left_out"] for item in made.values())
    run = Run.objects.get(name="bold ant")
    assert run.config["client"] == {"lr": 1e-05, "model/name": "tiny\nsecond", "flag": True}
    assert {"group:tuning", "team:red"} <= set(run.tags) and run.run_notes.get().text == "first try"
    assert points(run.pk, "train/loss") == [[0, 1.0], [1, 0.5], [2, "NaN"]]
    assert points(run.pk, "best") == [[-1, "Infinity" if store == "mlruns" else 1.7976931348623157e308]]
    version = Artifact.objects.get(name=f"run-{run.pk}").versions.get()
    assert dict(version.files.values_list("path", "size")) == {"texts/a.txt": 5, "b.txt": 6}


def test_rows_of_a_csv_file_are_imported_once(connected: str, troupe: Troupe, tmp_path: Path) -> None:
    file = tmp_path / "logs" / "ppo" / "progress.csv"
    file.parent.mkdir(parents=True)
    file.write_text("rollout/ep_rew_mean,note,time/total_timesteps\n1.5,a,100\n,b,200\ninf,c,300\n")
    made = imported(troupe, "csv", str(tmp_path / "logs"))["ppo/progress"]
    assert made["values"] == 2
    with file.open("a") as rows:
        rows.write("2.5,d,400\n")
    for _ in range(2):
        imported(troupe, "csv", str(tmp_path / "logs"))
    assert points(made["run"], "rollout/ep_rew_mean") == [[100, 1.5], [300, "Infinity"], [400, 2.5]]
    assert Run.objects.get().iteration == 400


def test_a_file_that_is_no_database_is_refused(connected: str, troupe: Troupe, tmp_path: Path) -> None:
    (tmp_path / "x.db").write_text("no database" * 100)
    result = troupe("import", "mlflow", str(tmp_path / "x.db"))
    assert result.status == 1 and "not a database of MLflow" in result.err


@pytest.mark.parametrize(
    ("text", "value"),
    [("0.001", 0.001), ("1e-05", 1e-05), ("64", 64), ("-3", -3), ("True", True), ("None", None)]
    + [(text, text) for text in ("tiny", "007", "1e999", "nan", "[1, 2]", "12345678901234567890", "")],
)
def test_texts_of_settings_get_their_type(text: str, value: Any) -> None:
    assert typed(text) == value and type(typed(text)) is type(value)


def test_a_damaged_file_ends_only_its_own_import(connected: str, troupe: Troupe, tmp_path: Path) -> None:
    file_store(tmp_path / "mlruns", ["1700000000000 0.5 0", "1700000001000 0.25 1"])
    torn = tmp_path / "mlruns" / "7" / "ab12" / "metrics" / "train" / "loss"
    torn.write_text(torn.read_text() + "1700000002000 0.1")  # of 0.125 2
    bad = tmp_path / "mlruns" / "7" / "aa00" / "meta.yaml"
    bad.parent.mkdir()
    bad.write_text("run_id: [a\n x: {{")
    result = troupe("import", "mlflow", str(tmp_path / "mlruns"), "--json")
    (made,) = json.loads(result.out)
    assert result.status == 1 and str(bad) in result.err
    assert (made["values"], made["left_out"]) == (2, {"line of a metric that is not complete": 1})


def test_a_run_that_the_server_refuses_ends_only_its_own_import(
    connected: str, troupe: Troupe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has begun, so it must not stay running."""
    for name in "abc":
        (tmp_path / f"{name}.csv").write_text("step,loss\n0,1.5\n")

    def refused(server: Any, run: str, attempt: int, producer: str, events: Any) -> None:
        if not producer.startswith("end") and run == stable_id(str((tmp_path / "b.csv").resolve())):
            raise Undelivered("the server refuses event 1")
        deliver(server, run, attempt, producer, events)

    deliver = importing.deliver
    monkeypatch.setattr(importing, "deliver", refused)
    result = troupe("import", "csv", str(tmp_path), "--json")
    assert result.status == 1 and "b: the server refuses event 1" in result.err
    assert [item["name"] for item in json.loads(result.out)] == ["a", "c"]
    assert dict(Run.objects.values_list("name", "state")) == {"a": "finished", "b": "failed", "c": "finished"}


def test_infinite_numbers_of_a_config_and_times_in_milliseconds_are_imported(
    connected: str, troupe: Troupe, tmp_path: Path
) -> None:
    file = tmp_path / "ms.csv"
    file.write_text('#{"t_start": 1, "clip": Infinity}\nstep,loss,timestamp\n0,1.5,1700000000000\n')
    imported(troupe, "csv", str(file))
    run = Run.objects.get()
    assert (run.state, run.config["client"]["clip"]) == ("finished", "Infinity")
    series = find_server().call(f"/api/v1/runs/{run.pk}/series/", keys="loss")["series"]["loss"]
    assert series["times"] == [1700000000.0]


CSV_FILES = {
    "tensorboard": (
        "Wall time,Step,Value\n1700000000.5,0,1.0\n1700000010.5,100,0.5\n",
        [(0, {"Value": 1.0}, 1700000000.5), (100, {"Value": 0.5}, 1700000010.5)],
    ),
    "wandb": (
        '"Step","run - loss"\n"0","1"\n"100","0.5"\n',
        [(0, {"run - loss": 1.0}, None), (100, {"run - loss": 0.5}, None)],
    ),
    "sb3": (
        '#{"t_start": 1700000000.5, "env_id": "CartPole-v1"}\nr,l,t\n10.0,10,0.5\n20.0,20,1.5\n',
        [
            (0, {"r": 10.0, "l": 10.0, "t": 0.5}, 1700000001.0),
            (1, {"r": 20.0, "l": 20.0, "t": 1.5}, 1700000002.0),
        ],
    ),
    "keras": (
        "epoch,loss\n1,0.5\n2,0.25\n",
        [(1, {"loss": 0.5}, None), (2, {"loss": 0.25}, None)],
    ),
    "fractions": (
        "epoch,loss\n0.5,0.5\n1,0.25\n",
        [(0, {"epoch": 0.5, "loss": 0.5}, None), (1, {"epoch": 1.0, "loss": 0.25}, None)],
    ),
}


@pytest.mark.parametrize("kind", CSV_FILES)
def test_columns_and_comments_of_other_tools(kind: str, tmp_path: Path) -> None:
    text, expected = CSV_FILES[kind]
    file = tmp_path / "file.csv"
    file.write_text(text)
    (run,) = from_csv.runs_of(file)
    events = [json.loads(event) for event in run.events["rows"]]
    written = file.stat().st_mtime
    assert [(event["step"], event["values"], event["time"]) for event in events] == [
        (step, values, time or pytest.approx(written)) for step, values, time in expected
    ]
    assert run.config.get("env_id") == ("CartPole-v1" if kind == "sb3" else None)
