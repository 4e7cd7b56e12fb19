"""What the database believes against what the launcher says: unknown is never failed, dead is never running."""

import json
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.utils import timezone

from tests.webapp.scheduling.conftest import Say, silent_for
from webapp.accounts.tokens import token_find
from webapp.checkpoints.models import Checkpoint
from webapp.metrics.selectors import keys
from webapp.reconciliation import services as reconciliation
from webapp.reconciliation.services import run_look_after, runs_reconcile_now
from webapp.runs.models import Attempt, LogLine, Run
from webapp.scheduling.services import run_end_now, run_pause, run_resume, run_stop
from webapp.scheduling.submission import run_submit_now
from workers.launchers.launcher import JobState, JobStatus
from workers.launchers.registry import FakeLauncher
from workers.storage.folders import RunFolder

pytestmark = pytest.mark.usefixtures("long_up")


@pytest.fixture
def running(run: Run, launcher: FakeLauncher, say: Say) -> Run:
    """A run whose first attempt is at work."""
    run_submit_now(run.pk)
    launcher.set(job(run), JobState.RUNNING)
    say("starting")
    say("running")
    return Run.objects.get(pk=run.pk)


def job(run: Run, number: int = 1) -> str:
    return f"troupe-{run.pk}-{number}"


def now(run: Run) -> Run:
    return Run.objects.select_related("project", "owner").get(pk=run.pk)


def attempts(run: Run) -> list[tuple[int, str, str]]:
    return list(run.attempts.order_by("number").values_list("number", "state", "ended_as"))


def spool(run: Run, home: Path, *events: dict[str, Any], attempt: int = 1) -> None:
    folder = RunFolder(home / "runs" / run.pk).spool(attempt)
    folder.mkdir(parents=True, exist_ok=True)
    head = {"run": run.pk, "attempt": attempt, "producer": "left", "time": 1000.0}
    lines = [json.dumps(head | {"seq": seq} | event) for seq, event in enumerate(events, 1)]
    (folder / "left.jsonl").write_text("\n".join(lines) + "\n" + '{"torn')


def test_a_queued_run_that_nobody_was_woken_for_is_submitted(run: Run, launcher: FakeLauncher) -> None:
    runs_reconcile_now()
    assert now(run).state == "starting"


@pytest.mark.parametrize("silence", [1, 40, 100_000])
def test_no_answer_is_never_a_failure(running: Run, launcher: FakeLauncher, silence: float) -> None:
    launcher.reachable = False
    silent_for(running.attempts.get(), silence)
    for _ in range(3):
        runs_reconcile_now()
    assert now(running).state == "running"
    assert attempts(running) == [(1, "live", "")]
    assert now(running).reason == ("" if silence < 30 else "State unknown: the fake is out of reach.")


@pytest.mark.parametrize("act", [run_pause, run_end_now])
def test_a_request_during_the_launchers_answer_keeps_its_reason(
    running: Run, launcher: FakeLauncher, monkeypatch: pytest.MonkeyPatch, act: Callable[..., Run]
) -> None:
    if act is run_end_now:
        run_pause(running.owner, running)
    status = launcher.status
    told = []

    def status_late(job_id: str) -> JobStatus:
        told.append(act(running.owner, now(running)).reason)
        return status(job_id)

    monkeypatch.setattr(launcher, "status", status_late)
    run_look_after(running.pk)
    assert told == [now(running).reason]
    assert told[0].startswith("Pausing: completing iteration" if act is run_pause else "Ending now")


def test_an_answer_after_an_outage_clears_what_was_said(running: Run, launcher: FakeLauncher) -> None:
    launcher.reachable = False
    silent_for(running.attempts.get(), 40)
    runs_reconcile_now()
    launcher.reachable = True
    silent_for(running.attempts.get(), 1)
    runs_reconcile_now()
    assert now(running).reason == ""
    assert running.attempts.get().unreachable_since is None


def test_a_missing_job_is_dead_after_90_seconds_of_silence(running: Run, launcher: FakeLauncher) -> None:
    launcher.set(job(running), JobState.MISSING)
    silent_for(running.attempts.get(), 75)
    runs_reconcile_now()
    assert now(running).state == "running"
    assert now(running).reason == "Ray no longer lists this job; last heartbeat 75 s ago."
    assert now(running).remedy == "This run resumes automatically in about 15 s."
    silent_for(running.attempts.get(), 91)
    runs_reconcile_now()
    assert attempts(running) == [(1, "ended", "lost"), (2, "live", "")]
    assert now(running).state == "starting"


def test_silence_counts_from_this_process_start(
    running: Run, launcher: FakeLauncher, monkeypatch: pytest.MonkeyPatch
) -> None:
    launcher.set(job(running), JobState.MISSING)
    silent_for(running.attempts.get(), 5000)
    for age, state in ((70, "running"), (95, "starting")):
        started = timezone.now() - timedelta(seconds=age)
        monkeypatch.setattr(reconciliation, "process_start", lambda started=started: started)
        runs_reconcile_now()
        assert now(running).state == state
        if state == "running":
            assert now(running).reason == f"The server was restarted at {started:%Y-%m-%d %H:%M} UTC."
            assert now(running).remedy == "This run resumes automatically in about 20 s."


def test_a_driver_that_speaks_is_not_dead_though_its_job_is_missing(
    running: Run, launcher: FakeLauncher
) -> None:
    launcher.set(job(running), JobState.MISSING)
    silent_for(running.attempts.get(), 2)
    runs_reconcile_now()
    assert (now(running).state, now(running).reason) == ("running", "")


@pytest.mark.parametrize("how", [JobState.FAILED, JobState.SUCCEEDED, JobState.STOPPED])
def test_a_job_that_ended_without_a_word_is_followed_by_another_attempt(
    running: Run, launcher: FakeLauncher, how: JobState
) -> None:
    facts = {"attempt": 1, "cursor": 1, "iteration": 40, "size": 1, "time": timezone.now()}
    Checkpoint.objects.create(run=running, path="checkpoints/iteration-000040", **facts)
    launcher.log = "Traceback: out of memory\x00"
    launcher.set(job(running), how, "signal 9")
    runs_reconcile_now()
    assert attempts(running) == [(1, "ended", "lost"), (2, "live", "")]
    assert launcher.launches[1].resume_from == launcher.launches[1].folder / "checkpoints/iteration-000040"
    line = LogLine.objects.get(run=running)
    assert (line.message, line.attempt, line.level) == ("Traceback: out of memory", 1, "error")
    assert line.cursor == now(running).event_count, "watchers see it come"


@pytest.mark.parametrize(
    ("prefix", "state", "attempts_made"), [("failed", "failed", 1), ("lost", "starting", 2)]
)
def test_a_printed_failure_is_the_reason_and_decides_about_another_attempt(
    running: Run, launcher: FakeLauncher, prefix: str, state: str, attempts_made: int
) -> None:
    """A full disk keeps the driver from reporting it. An error of the user's making is not retried."""
    full = "cannot write the checkpoint /data/x: [Errno 28] No space left on device; is the disk full?"
    launcher.log = f"iteration 3: success 0.5\nfailed: the first try\n{prefix}: {full}\n"
    launcher.set(job(running), JobState.FAILED, "Job entrypoint command failed with exit code 1")
    runs_reconcile_now()
    assert running.attempts.get(number=1).reason == f"C{full[1:]}"
    assert (now(running).state, running.attempts.count()) == (state, attempts_made)


def test_what_was_spooled_is_stored_first_and_may_tell_the_end(
    running: Run, launcher: FakeLauncher, settings: Any
) -> None:
    spool(
        running,
        settings.TROUPE_HOME,
        {"type": "metrics", "step": 120, "values": {"train/return": 1.5}},
        {"type": "status", "state": "finished", "iteration": 120},
    )
    launcher.set(job(running), JobState.SUCCEEDED)
    runs_reconcile_now()
    runs_reconcile_now()
    assert (now(running).state, now(running).iteration) == ("finished", 120)
    assert attempts(running) == [(1, "ended", "finished")]
    assert [(facts.key, facts.count) for facts in keys(running)] == [("train/return", 1)]


def test_attempts_are_made_up_to_the_limit_then_it_has_failed(running: Run, launcher: FakeLauncher) -> None:
    assert running.config["run"]["max_attempts"] == 3
    for number in (1, 2, 3):
        assert now(running).state in ("running", "starting")
        launcher.set(job(running, number), JobState.FAILED)
        runs_reconcile_now()
    run = now(running)
    assert attempts(run) == [(1, "ended", "lost"), (2, "ended", "lost"), (3, "ended", "lost")]
    assert run.state == "failed"
    assert "after 3 attempts" in run.reason
    assert run.ended_at
    runs_reconcile_now()
    assert len(launcher.launches) == 3


def test_failed_run_that_is_resumed_gets_new_attempt(running: Run, launcher: FakeLauncher, say: Say) -> None:
    say("failed", 7, message="a bug")
    assert (now(running).state, now(running).reason) == ("failed", "A bug.")
    run_resume(running.owner, now(running))
    runs_reconcile_now()
    assert attempts(running) == [(1, "ended", "failed"), (2, "live", "")]


def test_a_last_word_may_ask_for_another_attempt(running: Run, launcher: FakeLauncher, say: Say) -> None:
    say("failed", 7, message="update-executor died", facts={"retry": True})
    run = now(running)
    assert (run.state, run.iteration) == ("queued", 7)
    assert "update-executor died" in run.reason
    assert "retry" not in run.facts
    runs_reconcile_now()
    assert attempts(run) == [(1, "ended", "lost"), (2, "live", "")]


def test_the_words_of_an_old_attempt_change_nothing_and_are_answered_exit(
    running: Run, launcher: FakeLauncher, say: Say
) -> None:
    launcher.set(job(running), JobState.FAILED)
    runs_reconcile_now()
    before = now(running)
    for state in ("running", "finished", "failed", "stopped"):
        assert say(state, 99).command == "exit"
    after = now(running)
    assert (after.state, after.iteration, after.reason) == (before.state, before.iteration, before.reason)
    assert attempts(running) == [(1, "ended", "lost"), (2, "live", "")]
    assert say("running", 0, attempt=2).command is None


@pytest.mark.parametrize(("act", "state"), [(run_stop, "stopped"), (run_pause, "paused")])
@pytest.mark.parametrize("word", ["stopped", "paused"])
def test_last_word_ends_as_its_people_asked(running: Run, say: Say, act: Any, state: str, word: str) -> None:
    """A driver that got a signal says "stopped", whatever was asked."""
    act(running.owner, running)
    say(word, 3)
    assert (now(running).state, now(running).stop_requested) == (state, "")
    assert now(running).ended_at


def test_a_run_that_finishes_while_it_is_asked_to_stop_has_finished(running: Run, say: Say) -> None:
    run_stop(running.owner, running)
    say("finished", 120)
    assert (now(running).state, now(running).stop_requested) == ("finished", "")


@pytest.mark.parametrize(("act", "state"), [(run_stop, "stopped"), (run_pause, "paused")])
def test_an_attempt_that_dies_during_a_stop_is_not_restarted(
    running: Run, launcher: FakeLauncher, act: Any, state: str
) -> None:
    act(running.owner, running)
    launcher.set(job(running), JobState.MISSING)
    silent_for(running.attempts.get(), 91)
    runs_reconcile_now()
    assert now(running).state == state
    assert len(launcher.launches) == 1


def test_waiting_for_ray_to_start_the_job_is_said_and_forgotten(run: Run, launcher: FakeLauncher) -> None:
    run_submit_now(run.pk)
    silent_for(run.attempts.get(), 20)
    runs_reconcile_now()
    assert now(run).reason == "Submitted; Ray has not started it yet."
    launcher.set(job(run), JobState.RUNNING)
    runs_reconcile_now()
    assert now(run).reason == ""


def test_what_a_starting_run_waits_for_is_shown_until_it_runs(
    run: Run, launcher: FakeLauncher, say: Say
) -> None:
    run_submit_now(run.pk)
    launcher.set(job(run), JobState.RUNNING)
    say("starting", message="base model, 45%: warm start: step 180 of 400")
    for _ in range(2):
        assert (now(run).state, now(run).reason[:15]) == ("starting", "Base model, 45%")
        runs_reconcile_now()
    say("running")
    runs_reconcile_now()
    assert (now(run).state, now(run).reason) == ("running", "")


def test_an_error_in_one_run_does_not_delay_other_runs(
    run: Run,
    running: Run,
    launcher: FakeLauncher,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    def fail(submission_id: str) -> str:
        raise RuntimeError("the launcher has a bug")

    other = Run.objects.create(
        project=run.project, owner=run.owner, name="later", config=run.config, iterations=1, state="queued"
    )
    launcher.devices = launcher.devices.__class__(64.0, 0.0, 64.0, 0.0)
    monkeypatch.setattr(launcher, "status", fail)
    runs_reconcile_now()
    assert "could not be reconciled" in caplog.text
    assert now(other).state == "starting"


def test_tokens_of_a_run_end_an_hour_after_it(running: Run, launcher: FakeLauncher, say: Say) -> None:
    secret = RunFolder(launcher.launches[0].folder).token(1)
    say("finished", 120)
    runs_reconcile_now()
    assert token_find(secret), "its driver may still deliver"
    Run.objects.update(ended_at=timezone.now() - timedelta(minutes=61))
    runs_reconcile_now()
    assert token_find(secret) is None


def test_attempt_that_fails_at_start_keeps_progress(running: Run, launcher: FakeLauncher, say: Say) -> None:
    say("running", 60)
    launcher.set(job(running), JobState.FAILED)
    runs_reconcile_now()
    assert Attempt.objects.count() == 2
    say("starting", 0, attempt=2)
    say("failed", 0, attempt=2, message="no such model")
    assert (now(running).state, now(running).iteration) == ("failed", 60)
