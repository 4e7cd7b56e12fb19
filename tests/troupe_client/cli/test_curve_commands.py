"""troupe metric, timeline cost and run-note against a real server."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

from tests.troupe_client.cli.conftest import Troupe
from tests.webapp.metrics.test_series import event, store
from webapp.runs.models import Attempt, Run, RunNote

MOMENT = datetime(2026, 1, 1, tzinfo=UTC)


def test_notes_are_written_listed_and_removed(troupe: Troupe, run: Run, connected: str) -> None:
    assert "No notes yet" in troupe("run-note", "list", run.pk).out
    made = troupe("run-note", "add", run.pk, "[bold]look[/bold]", "--step", "4")
    note = RunNote.objects.get()
    assert made.out.strip() == f"{note.pk}  step 4  ada  [bold]look[/bold]"
    whole = json.loads(troupe("run-note", "add", run.pk, "all of it", "--json").out)
    assert whole["step"] is None
    assert troupe("run-note", "list", run.pk).out.splitlines()[1].split() == [
        *(str(whole["id"]), "–", "ada", "all", "of", "it")
    ]
    changed = troupe("run-note", "edit", run.pk, str(whole["id"]), "most of it")
    assert changed.out.strip() == f"{whole['id']}  ada  most of it"
    assert "removed" in troupe("run-note", "remove", run.pk, str(whole["id"])).out
    assert [each["id"] for each in json.loads(troupe("run-note", "list", run.pk, "--json").out)] == [note.pk]
    refused = troupe("run-note", "add", run.pk, " ")
    assert refused.status == 1 and "text: give at least 1 characters" in refused.err


def test_events_lists_what_is_marked(troupe: Troupe, run: Run, connected: str) -> None:
    assert "No events yet" in troupe("metric", "events", run.pk).out
    RunNote.objects.create(run=run, author=run.owner, step=4, text="look")
    assert troupe("metric", "events", run.pk).out.strip() == "step 4  note  look  ada"
    assert (
        json.loads(troupe("metric", "events", run.pk, "--kind", "note", "--json").out)[0]["title"] == "look"
    )
    assert "No events yet" in troupe("metric", "events", run.pk, "--kind", "finding").out


def test_curves_are_listed_and_exported(troupe: Troupe, run: Run, connected: str, tmp_path: Path) -> None:
    store(run, event(1, {"a/x": 0.1, "b": "NaN"}, 10.5), event(2, {"a/x": 1e-9}, 11.0))
    run.save()
    assert [line.split() for line in troupe("metric", "list", run.pk).out.splitlines()][1:] == [
        ["a/x", "2", "2", "1e-09"],
        ["b", "1", "1", "NaN"],
    ]
    assert [each["key"] for each in json.loads(troupe("metric", "list", run.pk, "a/", "--json").out)] == [
        "a/x"
    ]
    assert "No such metric" in troupe("metric", "list", run.pk, "zzz").out
    rows = ["metric,attempt,step,time,value", "a/x,1,1,10.5,0.1", "a/x,1,2,11.0,1e-09", "b,1,1,10.5,nan"]
    assert troupe("metric", "export", run.pk).out.splitlines() == rows
    assert troupe("metric", "export", run.pk, "b").out.splitlines() == [rows[0], rows[3]]
    file = tmp_path / "points.csv"
    assert "3 points in" in troupe("metric", "export", run.pk, "--output", str(file)).out
    assert file.read_text().splitlines() == rows


def test_cost_says_what_was_spent(troupe: Troupe, run: Run, connected: str) -> None:
    store(run, event(1, {"progress/tokens": 4321.0}))
    run.save()
    Attempt.objects.create(
        run=run, number=1, submission_id="s", started_at=MOMENT, ended_at=MOMENT + timedelta(hours=1)
    )
    found = json.loads(troupe("timeline", "cost", run.pk, "--json").out)
    assert (found["seconds"], found["tokens"]) == (3600.0, 4321)
    result = troupe("timeline", "cost", run.pk).out.splitlines()
    assert result[0].startswith("ran 3600 s in 1 attempts, waited ") and result[-1] == "4321 training tokens"
    assert result[1] == f"{found['cpus']:.3f} CPU core hours ({found['cpus']:g} held)"
