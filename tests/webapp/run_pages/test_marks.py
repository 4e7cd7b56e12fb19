"""Notes on runs, and what is marked on their curves."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from troupe_client.documents.launches import ClientRunBody
from webapp.accounts.models import AuditEntry, Membership, Project, User
from webapp.checkpoints.models import Checkpoint
from webapp.health.models import Finding
from webapp.run_pages.marks import KINDS, marks_list
from webapp.runs.costs import eta_seconds
from webapp.runs.models import Attempt, Run, RunNote
from webapp.runs.selectors import attempts_of
from webapp.scheduling.client_runs import client_run_begin

MOMENT = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture
def viewer(project: Project) -> Client:
    person = User.objects.create_user("vera")
    Membership.objects.create(project=project, user=person, level=Membership.Level.VIEWER)
    client = Client()
    client.force_login(person)
    return client


def checkpoint(run: Run, iteration: int, **fields: Any) -> Checkpoint:
    base = {"attempt": 1, "cursor": 1, "size": 5, "time": MOMENT, "metrics": {"eval/success": 0.5}}
    return Checkpoint.objects.create(
        run=run, iteration=iteration, path=f"iteration-{iteration:06d}", **(base | fields)
    )


def finding(run: Run, state: str, key: str) -> Finding:
    return Finding.objects.create(
        run=run, rule="kl_blow_up", key=key, severity="critical", title="ran away", state=state,
        first_step=12, last_step=20, evidence={},
    )  # fmt: skip


def test_marks_are_what_happened_by_step(run: Run, user: User) -> None:
    for iteration, best, removed in ((10, False, True), (20, True, False), (30, False, False)):
        checkpoint(run, iteration, best=best, removed=removed)
    Attempt.objects.create(run=run, number=1, submission_id="a", changes={})
    resumed = {
        "resumed_from": "iteration-000020",
        "resumed_iteration": 20,
        "changes": {"algorithm.beta": 0.01},
    }
    Attempt.objects.create(run=run, number=2, submission_id="b", **resumed)
    finding(run, "open", "policy/a/kl")
    finding(run, "dismissed", "policy/b/kl")
    RunNote.objects.create(run=run, author=user, step=25, text="look")
    RunNote.objects.create(run=run, author=None, step=None, text="all of it")
    found = [(mark.kind, mark.step, mark.title, mark.strong) for mark in marks_list(run)]
    assert found == [
        ("finding", 12, "ran away", True),
        ("checkpoint", 20, "best checkpoint", True),
        ("attempt", 20, "attempt 2", False),
        ("edit", 20, "config edited", False),
        ("note", 25, "look", False),
        ("checkpoint", 30, "checkpoint", False),
        ("note", None, "all of it", False),
    ]
    by_kind = {mark.kind: mark for mark in marks_list(run)}
    assert set(by_kind) == set(KINDS)
    assert by_kind["edit"].detail == "algorithm.beta = 0.01"
    assert by_kind["checkpoint"].detail == "eval/success 0.50" and by_kind["checkpoint"].time == 1767225600.0


def test_a_note_is_written_listed_and_removed(ada: Client, run: Run) -> None:
    made = ada.post(
        f"/api/v1/runs/{run.pk}/notes/", json.dumps({"text": "a turn", "step": 7}), "application/json"
    )
    assert made.status_code == 201 and made.json()["author"] == "ada" and made.json()["step"] == 7
    listed = ada.get(f"/api/v1/runs/{run.pk}/notes/").json()["results"]
    assert listed == [made.json()]
    entry = AuditEntry.objects.get(act="run.note")
    assert (entry.target, entry.details["text"]) == (run.pk, "a turn")
    gone = ada.post(f"/api/v1/runs/{run.pk}/notes/{listed[0]['id']}/remove/", "{}", "application/json")
    assert gone.json() == made.json() and not RunNote.objects.exists()
    assert AuditEntry.objects.get(act="run.note_remove").details["step"] == 7
    assert ada.post(f"/api/v1/runs/{run.pk}/notes/9/remove/", "{}", "application/json").status_code == 404


def test_viewers_read_and_do_not_write(ada: Client, viewer: Client, run: Run) -> None:
    ada.post(f"/runs/{run.pk}/notes/", {"text": "<b>mine</b>", "step": "2"})
    note = RunNote.objects.get()
    page = viewer.get(f"/runs/{run.pk}/").content.decode()
    assert "&lt;b&gt;mine&lt;/b&gt;" in page and "<b>mine" not in page and 'id="run-note"' not in page
    assert viewer.post(f"/runs/{run.pk}/notes/", {"text": "x"}).status_code == 403
    assert viewer.post(f"/runs/{run.pk}/notes/{note.pk}/remove/").status_code == 403
    Membership.objects.filter(user__username="vera").update(level=Membership.Level.EDITOR)
    assert viewer.post(f"/runs/{run.pk}/notes/{note.pk}/remove/").status_code == 403, "not its author"
    assert 'id="run-note"' in viewer.get(f"/runs/{run.pk}/").content.decode()
    assert ada.post(f"/runs/{run.pk}/notes/{note.pk}/remove/").status_code == 302


def test_a_note_is_changed_by_its_author_and_by_owners(
    ada: Client, viewer: Client, run: Run, user: User, project: Project
) -> None:
    note = RunNote.objects.create(run=run, author=None, step=3, text="first words")
    path = f"/api/v1/runs/{run.pk}/notes/{note.pk}/change/"
    answer = ada.post(path, {"text": " better words "}, content_type="application/json")
    assert answer.status_code == 200 and answer.json()["text"] == "better words"
    assert answer.json()["step"] == 3
    assert viewer.post(path, {"text": "mine"}, content_type="application/json").status_code == 403
    page = ada.post(f"/runs/{run.pk}/notes/{note.pk}/change/", {"text": "by the page", "next": "/runs/?q=x"})
    assert page.url == "/runs/?q=x"  # type: ignore[attr-defined]
    note.refresh_from_db()
    assert note.text == "by the page"
    entry = AuditEntry.objects.filter(act="run.note_change").order_by("pk").first()
    assert entry and entry.details == {"note": note.pk, "was": "first words", "text": "better words"}


def test_the_table_shows_the_latest_note_and_filters_find_any(
    ada: Client, viewer: Client, run: Run, user: User
) -> None:
    for text in ("entropy is low", "<b>raised</b> it"):
        RunNote.objects.create(run=run, author=user, text=text)
    page = ada.get("/runs/?filter=note+~+ENTROPY").content.decode()
    assert "&lt;b&gt;raised&lt;/b&gt; it" in page and "entropy is low" not in page
    assert f'data-note="{run.pk}"' in page
    seen = viewer.get("/runs/").content.decode()
    assert "raised" in seen and "data-note=" not in seen
    assert "No run matches" in ada.get('/runs/?filter=note+%3D+"entropy"').content.decode()
    (row,) = ada.get("/api/v1/runs/?columns=note").json()["results"]
    assert row["columns"] == {"note": "<b>raised</b> it"}


def test_program_that_resumes_is_marked_at_step_from_which_it_counts_on(user: User, project: Project) -> None:
    run, _ = client_run_begin(user, project, ClientRunBody(id="23456789", steps=20))
    Attempt.objects.filter(run=run).update(state=Attempt.State.ENDED)
    Run.objects.filter(pk=run.pk).update(iteration=10, state="finished")
    run, attempt = client_run_begin(user, project, ClientRunBody(id=run.pk, resume="must"))
    Attempt.objects.filter(pk=attempt.pk).update(started_at=timezone.now() - timedelta(seconds=50))
    Run.objects.filter(pk=run.pk).update(iteration=15)
    again = Run.objects.get(pk=run.pk)
    (mark,) = (mark for mark in marks_list(again) if mark.kind == "attempt")
    assert (mark.step, mark.detail) == (10, "resumed from step 10")
    assert eta_seconds(again, attempts_of(again)[-1]) == pytest.approx(50, abs=5)
