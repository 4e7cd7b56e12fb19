"""Importers read no file outside of the imported folder."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from troupe_client.reporting import from_csv, from_mlflow, tensorboard
from troupe_client.reporting.wandb_values import crossing

SECRET = "PRIVATE-KEY-7f3a"


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """A folder beside the imported one."""
    folder = tmp_path / "outside"
    for name, text in {"x": SECRET, "r.csv": "a\n1\n", "events.out.tfevents.1": "", "t.json": "{}"}.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)
    (folder / "meta.yaml").write_text(f"run_id: ef56\nrun_name: {SECRET}\nstatus: 3\n")
    return folder


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Path]:
    """The folder of a run below mlruns."""
    run = tmp_path / "mlruns" / "7" / "ab12"
    for part in ("params", "tags", "metrics"):
        (run / part).mkdir(parents=True)
    (run / "meta.yaml").write_text("run_id: ab12\nrun_name: r\nstatus: 3\n")
    (run / "params" / "lr").write_text("1")
    yield run


def test_links_out_of_a_folder_of_mlflow_are_left_out_and_named(
    run: Path, outside: Path, caplog: pytest.LogCaptureFixture
) -> None:
    links = [run / "params" / "x", run / "tags" / "mlflow.note.content", run / "metrics" / "m"]
    for link in links:
        link.symlink_to(outside / "x")
    links += [run.parent / "meta.yaml", run.parent / "ef56" / "meta.yaml", run.parent / "cd34"]
    (run.parent / "ef56").mkdir()
    links[3].symlink_to(outside / "meta.yaml")
    links[4].symlink_to(outside / "meta.yaml")
    links[5].symlink_to(outside)
    (run / "params" / "same").symlink_to(run / "params" / "lr")
    (imported,) = from_mlflow.runs_of(run.parent.parent)
    assert imported.config == {"lr": 1, "same": 1}
    assert SECRET not in repr(imported)
    named = links[:5] + [links[5] / "meta.yaml"]
    assert all(str(link) in caplog.text for link in named)


def test_links_out_of_other_folders_are_left_out(run: Path, outside: Path) -> None:
    for name in ("r.csv", "events.out.tfevents.1"):
        (run / name).symlink_to(outside / name)
    (run / "files").symlink_to(outside)
    assert list(from_csv.runs_of(run)) == []
    assert tensorboard.log_folders(run) == []
    left_out: dict[str, str] = {}
    assert crossing({"t": {"_type": "table-file", "path": "t.json"}}, run / "files", left_out) == {}
    assert "not below" in left_out["t"]
