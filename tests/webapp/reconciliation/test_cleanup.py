"""What ended attempts leave behind, and reconciliation that is slow."""

from datetime import timedelta
from threading import Event, Thread

import pytest
from django.db import connection
from django.utils import timezone

from tests.webapp.scheduling.conftest import Say
from webapp.reconciliation import tasks
from webapp.reconciliation.services import runs_reconcile_now
from webapp.runs.models import Attempt, Run
from webapp.scheduling.submission import run_submit_now
from workers.launchers.launcher import JobState, JobStatus, LauncherFailure
from workers.launchers.registry import FakeLauncher

pytestmark = pytest.mark.usefixtures("long_up")


@pytest.fixture
def job(run: Run, launcher: FakeLauncher, say: Say) -> str:
    """The job of a run that has said its last word; its driver is still there."""
    run_submit_now(run.pk)
    name = launcher.launches[0].submission_id
    launcher.set(name, JobState.RUNNING)
    say("running")
    say("finished", 120)
    return name


def ended_ago(seconds: float) -> None:
    Attempt.objects.update(ended_at=timezone.now() - timedelta(seconds=seconds))


def test_driver_that_hangs_after_its_last_word_is_stopped(run: Run, launcher: FakeLauncher, job: str) -> None:
    ended_ago(20)
    runs_reconcile_now()
    assert launcher.stopped == [], "it may take a while to leave"
    ended_ago(31)
    runs_reconcile_now()
    assert launcher.stopped == [job]
    runs_reconcile_now()
    assert launcher.stopped == [job]
    assert Run.objects.get().state == "finished"


def test_a_job_that_was_not_stopped_is_stopped_next_time(
    launcher: FakeLauncher, job: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(submission_id: str) -> None:
        raise LauncherFailure("not now")

    ended_ago(31)
    with monkeypatch.context() as patch:
        patch.setattr(launcher, "stop", refuse)
        runs_reconcile_now()
    runs_reconcile_now()
    assert launcher.stopped == [job]


def test_jobs_that_are_over_are_asked_for_once(
    launcher: FakeLauncher, job: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def status(submission_id: str) -> JobStatus:
        asked.append(submission_id)
        return JobStatus(JobState.UNKNOWN if len(asked) == 1 else JobState.SUCCEEDED)

    monkeypatch.setattr(launcher, "status", status)
    ended_ago(31)
    for _ in range(4):
        runs_reconcile_now()
    assert asked == [job, job], "once without an answer, once with one"
    assert launcher.stopped == []


def test_the_attempt_that_follows_is_left_alone(run: Run, launcher: FakeLauncher, say: Say) -> None:
    run_submit_now(run.pk)
    first = launcher.launches[0].submission_id
    launcher.set(first, JobState.RUNNING)
    say("running")
    say("failed", 3, message="an update worker died", facts={"retry": True})
    run_submit_now(run.pk)
    second = launcher.launches[1].submission_id
    launcher.set(second, JobState.RUNNING)
    Attempt.objects.filter(number=1).update(ended_at=timezone.now() - timedelta(seconds=31))
    runs_reconcile_now()
    assert launcher.stopped == [first]
    assert launcher.jobs[second].state is JobState.RUNNING


@pytest.mark.django_db(transaction=True)
def test_one_reconciliation_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where Ray hangs, each takes longer than beat waits for the next: they must not take all of the worker's processes."""
    begun, go_on, calls = Event(), Event(), []

    def slow() -> None:
        calls.append(1)
        begun.set()
        go_on.wait(90)

    monkeypatch.setattr(tasks, "runs_reconcile_now", slow)

    def in_another_process() -> None:  # as far as the database can tell
        try:
            tasks.runs_reconcile()
        finally:
            connection.close()

    first = Thread(target=in_another_process)
    first.start()
    assert begun.wait(90)
    tasks.runs_reconcile()
    assert calls == [1]
    go_on.set()
    first.join()
    tasks.runs_reconcile()
    assert calls == [1, 1]
