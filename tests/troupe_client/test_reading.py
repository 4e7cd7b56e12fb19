"""Stored runs as data frames and charts, against a real server; the notebook of the examples in a real kernel."""

import json
from io import StringIO
from math import inf, isnan
from pathlib import Path

import pytest
from rich.console import Console

import troupe
from tests.troupe_client.cli.conftest import ada, connected, run
from tests.webapp.metrics.test_series import event, store
from tests.webapp.transcripts.test_episodes import played
from training_core.errors import TroupeError
from troupe_client.cli.watching import read_panel
from troupe_client.documents.launches import ClientRunBody
from troupe_client.reading import points_of, rows_of, values_by_step
from troupe_client.server_api import find_server
from webapp.accounts.models import User
from webapp.runs.models import Run
from webapp.scheduling.client_runs import client_run_begin
from webapp.transcripts.services import episodes_store

__all__ = ["ada", "connected", "run"]
NOTEBOOK = Path("examples/notebook/runs.ipynb")


@pytest.fixture
def told(connected: str, run: Run) -> Run:
    """A run with two metrics, one of them with a name that a spreadsheet would evaluate, and two episodes."""
    for step, value in enumerate([0.0, 0.25, 0.1 + 0.2]):
        store(run, event(step, {"eval/success": value, "=train/return": "NaN", "train/return": -value}))
    episodes_store(run, 1, [played("1-3-train-0"), played("1-4-train-0", outcome="lost", success=False)])
    run.headline = {"eval/success": 0.3, "train/return": 0.0}
    run.save()
    return run


def test_points_are_read_exactly(told: Run) -> None:
    points = list(points_of(find_server(), told.pk))
    assert [point[:3] for point in points] == [
        (name, 1, step) for name in ("=train/return", "eval/success", "train/return") for step in range(3)
    ]
    assert [point[4] for point in points[3:]] == [0.0, 0.25, 0.1 + 0.2, -0.0, -0.25, -(0.1 + 0.2)]
    assert all(isnan(point[4]) for point in points[:3])


def test_a_later_attempt_replaces_the_steps_from_its_first_one_on() -> None:
    points = [
        ("a", attempt, step, 0.0, attempt + step / 10) for attempt, step in [(1, 1), (1, 2), (2, 2), (1, 3)]
    ]
    assert values_by_step(points) == {1: 1.1, 2: 2.2}


def test_runs_are_found_and_read(told: Run) -> None:
    assert troupe.runs("eval/success > 0.5") == [] and troupe.runs(search="nothing") == []
    (found,) = troupe.runs("eval/success > 0.2")
    assert (found.id, found.state, found.config) == (told.pk, "queued", told.config)
    assert found.metrics() == ["=train/return", "eval/success", "train/return"]
    with pytest.raises(TroupeError, match="eval/succes;"):
        found.chart("eval/succes")


def test_a_chart_has_the_curve_and_no_script(told: Run) -> None:
    told.name = "<b>x</b>"
    told.save()
    (found,) = troupe.runs()
    shown = found.chart()._repr_html_()
    assert shown.count("<polyline") == 2 and "<b>0.3</b>" in shown and "step 0 to 2" in shown
    assert "&lt;b&gt;x" in shown and "<script" not in shown and "<b>x" not in shown


def test_a_custom_program_shows_its_headline_metrics(connected: str, ada: User) -> None:
    """Those that it has chosen, or else those with known names, in a chart without names and in the terminal."""
    chosen = {"23456789": ["depth"], "2345678a": []}
    for run_id, headline in chosen.items():
        body = ClientRunBody(id=run_id, headline=headline)
        run, _ = client_run_begin(ada, ada.memberships.get().project, body)
        store(run, event(0, {"depth": 1.0, "loss": 2.0}))
        run.save()
    for found, shown in zip(reversed(troupe.runs()), ("depth", "loss"), strict=True):
        chart = found.chart()._repr_html_()
        assert chart.count("<svg") == 1 and shown in chart
        _, panel = read_panel(find_server(), found.id)
        terminal = Console(file=StringIO(), width=100)
        terminal.print(panel)
        assert f"{shown} " in terminal.file.getvalue()  # type: ignore[attr-defined]


def test_a_list_is_read_page_by_page(told: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("troupe_client.reading.PAGE", 1)
    rows = list(rows_of(find_server(), f"/api/v1/runs/{told.pk}/episodes/", {"kind": "train"}))
    assert [row["name"] for row in rows] == ["1-4-train-0", "1-3-train-0"]
    assert len(list(rows_of(find_server(), f"/api/v1/runs/{told.pk}/episodes/", {}, 1))) == 1


def test_frames(told: Run) -> None:
    pytest.importorskip("pandas", reason="the extra notebook is not installed")
    (found,) = troupe.runs()
    frame = found.series("train/return", "eval/success")
    assert list(frame.columns) == ["train/return", "eval/success"] and list(frame.index) == [0, 1, 2]
    assert list(frame["eval/success"]) == [0.0, 0.25, 0.1 + 0.2]
    assert found.series()["=train/return"].isna().all()
    store(told, event(5, {"late": "Infinity"}))
    late = found.series("eval/success", "late")
    assert list(late.index) == [0, 1, 2, 5] and late["late"][5] == inf and isnan(late["eval/success"][5])
    assert list(found.episodes().name) == ["1-4-train-0", "1-3-train-0"]
    (won,) = found.episodes("success", turns=True).turns
    assert [turn["role"] for turn in won] == ["planner", "executor", "planner"] and won[0]["candidates"]


@pytest.mark.extended
def test_the_notebook_of_the_examples_runs(told: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    nbclient = pytest.importorskip("nbclient", reason="the extra notebook is not installed")
    nbformat = pytest.importorskip("nbformat")
    monkeypatch.setenv("PYTHONPATH", str(Path.cwd()))
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    assert all(not cell.get("outputs") for cell in notebook.cells), "it is stored without outputs"
    nbclient.NotebookClient(notebook, timeout=300, kernel_name="python3").execute()
    shown = json.dumps([cell.get("outputs", []) for cell in notebook.cells])
    assert told.pk in shown and shown.count("<polyline") == 2 and "0.3" in shown and "lost" in shown
