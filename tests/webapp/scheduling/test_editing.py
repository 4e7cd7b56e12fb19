"""Editing a run's config on the way: the next attempt goes on under it, and says so."""

from pathlib import Path

import pytest
from django.core.exceptions import PermissionDenied
from django.test import Client
from django.utils import timezone

from training_core.errors import ConfigError
from webapp.accounts.models import AuditEntry, Membership, Project, User
from webapp.checkpoints.models import Checkpoint
from webapp.run_pages.marks import marks_list
from webapp.runs.models import Run, RunState
from webapp.runs.states import TransitionRefused
from webapp.scheduling.forking import run_resume_edited
from webapp.scheduling.submission import run_submit_now
from workers.launchers.registry import FakeLauncher

RATE = "policies.planner.learner.learning_rate"


@pytest.fixture
def paused(run: Run) -> Run:
    """A run with a checkpoint of iteration 20, that waits for somebody."""
    Checkpoint.objects.create(
        run=run, attempt=1, cursor=1, iteration=20, path="checkpoints/iteration-000020", size=1, time=timezone.now()
    )  # fmt: skip
    Run.objects.filter(pk=run.pk).update(state=RunState.PAUSED, iteration=20)
    run.refresh_from_db()
    return run


def test_the_next_attempt_has_the_edited_config_and_lists_the_edits(
    user: User, paused: Run, launcher: FakeLauncher
) -> None:
    run = run_resume_edited(user, paused, {RATE: 1e-4, "run.iterations": 150, "rollout.tasks": 48})
    assert (run.state, run.iterations, run.edits) == ("queued", 150, {RATE: 1e-4, "run.iterations": 150})
    run_submit_now(run.pk)
    launch = launcher.launches[0]
    assert "learning_rate = 0.0001" in (launch.folder / "config.toml").read_text()
    assert launch.resume_from == launch.folder / Path("checkpoints/iteration-000020")
    run.refresh_from_db()
    attempt = run.attempts.get()
    assert (attempt.changes, run.edits) == ({RATE: 1e-4, "run.iterations": 150}, {})
    mark = next(each for each in marks_list(run) if each.kind == "edit")
    assert mark.step == 20 and f"{RATE} = 0.0001" in mark.detail
    assert AuditEntry.objects.filter(act="run.resume", details__edits__has_key=RATE).exists()


def test_edits_before_any_attempt_add_up(user: User, paused: Run) -> None:
    run = run_resume_edited(user, paused, {RATE: 1e-4})
    Run.objects.filter(pk=run.pk).update(state=RunState.STOPPED)
    run = run_resume_edited(user, run, {"algorithm.clip_low": 0.1})
    assert run.edits == {RATE: 1e-4, "algorithm.clip_low": 0.1}


@pytest.mark.parametrize(
    ("edits", "path"),
    [
        ({"run.iterations": 20}, "run.iterations"),
        ({"policies.planner.model": "/models/other"}, "policies.planner.model"),
        ({"algorithm.clip_lo": 0.1}, "algorithm.clip_lo"),
    ],
)
def test_what_the_checkpoint_or_the_config_cannot_take_changes_nothing(
    user: User, paused: Run, edits: dict[str, object], path: str
) -> None:
    with pytest.raises(ConfigError) as told:
        run_resume_edited(user, paused, edits)
    assert path in told.value.fields
    again = Run.objects.get()
    assert (again.state, again.config, again.edits) == ("paused", paused.config, {})


def test_active_runs_and_viewers_cannot_edit_the_config(user: User, paused: Run, project: Project) -> None:
    viewer = User.objects.create_user("vera")
    Membership.objects.create(project=project, user=viewer, level=Membership.Level.VIEWER)
    with pytest.raises(PermissionDenied):
        run_resume_edited(viewer, paused, {RATE: 1e-4})
    Run.objects.filter(pk=paused.pk).update(state=RunState.RUNNING)
    with pytest.raises(TransitionRefused):
        run_resume_edited(user, paused, {RATE: 1e-4})


def test_the_config_page_edits_and_says_what_is_wrong(paused: Run, ada: Client) -> None:
    page, edit = f"/runs/{paused.pk}/config/", f"/runs/{paused.pk}/edit/"
    assert "Edit and resume" in ada.get(page).content.decode()
    refused = ada.post(edit, {"edits": f"{RATE}=0\n\nalgorithm.clip_low=nine"})
    assert refused.status_code == 400
    assert "algorithm.clip_low=nine" in refused.content.decode()
    assert f"{RATE}: " in refused.content.decode()
    answer = ada.post(edit, {"edits": f"{RATE}=0.0002\r\n"})
    assert (answer.status_code, answer["Location"]) == (302, f"/runs/{paused.pk}/")
    assert Run.objects.get().config["policies"]["planner"]["learner"]["learning_rate"] == 0.0002
    assert "Edit and resume" not in ada.get(page).content.decode()
