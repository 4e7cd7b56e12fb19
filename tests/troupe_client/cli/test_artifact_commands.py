"""`troupe artifact`, and artifacts of a program's run, against a real server."""

import json
from pathlib import Path

import pytest

import troupe as client
from tests.troupe_client.cli.conftest import Troupe
from training_core.errors import TroupeError
from webapp.artifacts.models import ArtifactUse

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def _folders(tmp_path: Path, settings: object, monkeypatch: pytest.MonkeyPatch) -> None:
    settings.TROUPE_HOME = tmp_path / "server"  # type: ignore[attr-defined]
    monkeypatch.setenv("TROUPE_DIR", str(tmp_path / "client"))


def test_a_folder_is_put_named_and_fetched(connected: str, troupe: Troupe, tmp_path: Path) -> None:
    folder = tmp_path / "tasks"
    (folder / "train").mkdir(parents=True)
    (folder / "train" / "part 0.jsonl").write_text("{}\n")
    (folder / "readme.md").write_text("tasks")
    made = troupe("artifact", "put", "tasks", str(folder), "--type", "dataset", "--alias", "stable")
    assert "tasks:v0  latest, stable" in made.out, made.err
    assert "tasks:v0" in troupe("artifact", "put", "tasks", str(folder), "--type", "dataset").out
    (folder / "readme.md").write_text("more tasks")
    assert "tasks:v1" in troupe("artifact", "put", "tasks", str(folder), "--type", "dataset").out
    assert "stable" in troupe("artifact", "list").out
    shown = json.loads(troupe("artifact", "show", "tasks:stable", "--json").out)
    assert [file["path"] for file in shown["files"]] == ["readme.md", "train/part 0.jsonl"]
    there = Path(troupe("artifact", "get", "tasks:stable", "--to", str(tmp_path / "down")).out.strip())
    assert (there / "readme.md").read_text() == "tasks" and (
        there / "train" / "part 0.jsonl"
    ).read_text() == "{}\n"
    assert "production is tasks:v1" in troupe("artifact", "alias", "tasks", "production").out
    assert "removed" in troupe("artifact", "alias", "tasks:production", "production", "--remove").out
    assert "no version" in troupe("artifact", "get", "tasks:production").err


def test_a_program_logs_and_uses_artifacts(connected: str) -> None:
    run = client.init(name="makes", steps=1)
    version = run.log_artifact(
        [{"role": "planner", "reward": 1.0}, {"role": "executor"}], "episodes", aliases=["good"]
    )
    assert (version["version"], version["type"], version["aliases"]) == ("v0", "table", ["latest", "good"])
    other = client.init(name="uses", steps=1)
    folder = other.use_artifact("episodes:good")
    rows = [json.loads(line) for line in (folder / "table.jsonl").read_text().splitlines()]
    assert rows[0] == {"role": "planner", "reward": 1.0} and ArtifactUse.objects.get().run_id == other.id
    assert other.use_artifact("episodes") == folder
    same = client.Table([["planner", 1.0]], columns=["role", "reward"])
    assert other.log_artifact(same, "one")["digest"] == other.log_artifact(same.mappings(), "one")["digest"]
    client.finish()


def test_artifacts_need_a_server(tmp_path: Path) -> None:
    with client.init(mode="offline", dir=str(tmp_path)) as run, pytest.raises(TroupeError, match="online"):
        run.log_artifact(tmp_path, "x")


def test_unused_versions_are_listed_and_deleted(connected: str, troupe: Troupe, tmp_path: Path) -> None:
    file = tmp_path / "rows.jsonl"
    for text in ("1", "22", "333"):
        file.write_text(text)
        troupe("artifact", "put", "rows", str(file))
    dry = troupe("artifact", "prune", "--dry-run").out
    assert "would delete  rows:v1  2 bytes" in dry and "2 versions, 3 bytes to free" in dry
    assert "deleted rows:v0" in troupe("artifact", "delete", "rows:v0").out
    assert json.loads(troupe("artifact", "prune", "rows", "--json").out)["freed"] == 2
    assert "0 versions, 0 bytes freed" in troupe("artifact", "prune").out
    assert "has no artifact" in troupe("artifact", "prune", "none").err
