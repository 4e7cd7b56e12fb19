"""How runs end: a stop waits for a driver that is heard, a person may end it at once, losses count in a row without progress."""

import pickle
import re
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.core.exceptions import PermissionDenied
from django.test import Client
from django.utils import timezone
from django.utils.html import escape

from tests.webapp.scheduling.conftest import Say, silent_for
from training_core.errors import CheckpointError, ModelError, TroupeError
from webapp.accounts.models import AuditEntry, User
from webapp.checkpoints.models import Checkpoint
from webapp.ingest.services import spool_store
from webapp.metrics.models import Series
from webapp.reconciliation.services import runs_reconcile_now
from webapp.runs.models import Run
from webapp.runs.states import TransitionRefused
from webapp.scheduling.attempts import STARTS_AGAIN, spelled
from webapp.scheduling.services import run_do, run_end_now, run_pause, run_resume, run_stop
from webapp.scheduling.submission import run_submit_now
from workers.launchers import bundled_ray
from workers.launchers.launcher import JobState, LauncherFailure
from workers.launchers.registry import FakeLauncher
from workers.reporting.reporter import Reporter
from workers.storage.folders import RunFolder
from workers.telemetry.faults import fault_of

pytestmark = pytest.mark.usefixtures("long_up")
HOURS = timedelta(hours=3)


@pytest.fixture
def running(run: Run, launcher: FakeLauncher, say: Say) -> Run:
    """A run whose first attempt has completed an iteration of 105 s and has saved it."""
    run_submit_now(run.pk)
    launcher.set(job(run), JobState.RUNNING)
    say("starting")
    say("running")
    say("running", 1)
    Series.objects.create(run=run, key="time/iteration", last_value=105.2)
    return now(run)


def job(run: Run, number: int = 1) -> str:
    return f"troupe-{run.pk}-{number}"


def now(run: Run) -> Run:
    return Run.objects.select_related("project", "owner").get(pk=run.pk)


def saved(run: Run, iteration: int, attempt: int = 1) -> None:
    Checkpoint.objects.create(
        run=run, attempt=attempt, cursor=1, iteration=iteration, size=1, time=timezone.now(),
        path=f"checkpoints/iteration-{iteration:06d}",
    )  # fmt: skip


def asked_long_ago(run: Run) -> None:
    Run.objects.filter(pk=run.pk).update(stop_requested_at=timezone.now() - HOURS)


@pytest.mark.parametrize("act", [run_stop, run_pause])
def test_a_driver_that_is_heard_completes_its_iteration_however_long(
    running: Run, launcher: FakeLauncher, say: Say, act: Any
) -> None:
    act(running.owner, running)
    asked_long_ago(running)
    runs_reconcile_now()
    assert launcher.stopped == []
    assert now(running).state == "stopping"
    say("stopped", 2)
    assert now(running).state in ("stopped", "paused")
    assert now(running).iteration == 2


def test_what_a_stopping_run_waits_for_is_told(running: Run, launcher: FakeLauncher) -> None:
    run_pause(running.owner, running)
    begins = "Pausing: completing iteration 2 (the last one took 105 s); requested "
    assert re.fullmatch(
        rf"{re.escape(begins)}\d s ago; no checkpoint has been written\.", now(running).reason
    )
    saved(running, 1)
    asked_long_ago(running)
    runs_reconcile_now()
    assert now(running).reason == f"{begins}3.0 h ago; saved up to iteration 1."


def test_a_wait_for_outside_programs_is_told_before_and_during_a_stop(
    running: Run, launcher: FakeLauncher, say: Say
) -> None:
    """It stays told while the run is looked after, until its driver says that it waits no longer."""
    waits = "waits for agents; none has taken an episode for 40 s"
    say("running", 1, message=waits)
    runs_reconcile_now()
    assert waits[5:] in now(running).reason
    run_stop(running.owner, now(running))
    assert waits in now(running).reason
    Run.objects.filter(pk=running.pk).update(state="running", stop_requested="")
    say("running", 1)
    assert now(running).reason == ""


def test_a_starting_driver_is_not_reported_as_completing_an_iteration(
    run: Run, launcher: FakeLauncher, say: Say
) -> None:
    run_submit_now(run.pk)
    launcher.set(job(run), JobState.RUNNING)
    say("starting")
    run_stop(run.owner, now(run))
    assert re.fullmatch(r"Stopping: the workers are still starting; requested \d s ago\.", now(run).reason)


def test_a_silent_driver_is_stopped_from_outside_and_its_loss_is_told(
    running: Run, launcher: FakeLauncher
) -> None:
    saved(running, 1)
    run_stop(running.owner, running)
    asked_long_ago(running)
    silent_for(running.attempts.get(), 40)
    runs_reconcile_now()
    assert launcher.stopped == [job(running)]
    assert now(running).reason == "The driver has not reported for 40 s: the job is being stopped."
    runs_reconcile_now()
    assert (now(running).state, now(running).stop_requested) == ("stopped", "")
    assert now(running).reason == (
        "The job was stopped, because its driver was silent; the work after the last checkpoint is lost (saved up to iteration 1)."
    )
    assert running.attempts.get().reason == now(running).reason


def test_a_stopping_run_without_a_job_reports_its_deadline(running: Run, launcher: FakeLauncher) -> None:
    run_stop(running.owner, running)
    asked_long_ago(running)
    launcher.set(job(running), JobState.MISSING)
    silent_for(running.attempts.get(), 50)
    runs_reconcile_now()
    assert (launcher.stopped, now(running).state) == ([], "stopping")
    assert now(running).reason == "Ray no longer lists this job; last heartbeat 50 s ago."
    assert now(running).remedy == "The run counts as stopped in about 40 s."


def test_silence_before_the_request_does_not_count(running: Run, launcher: FakeLauncher) -> None:
    silent_for(running.attempts.get(), 40)
    run_stop(running.owner, running)
    runs_reconcile_now()
    assert launcher.stopped == []


def test_ending_now_stops_driver_that_is_heard(running: Run, launcher: FakeLauncher, sent: list[str]) -> None:
    run_pause(running.owner, running)
    run_end_now(running.owner, now(running))
    assert now(running).reason.startswith("Ending now: the driver writes a checkpoint")
    runs_reconcile_now()
    assert launcher.stopped == [job(running)]
    runs_reconcile_now()
    assert now(running).state == "paused"
    assert now(running).reason.startswith(
        "Ended immediately, as requested; the work after the last checkpoint is lost"
    )


def test_the_last_word_of_a_driver_that_is_ended_now_counts(
    running: Run, launcher: FakeLauncher, say: Say, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(launcher, "stop", lambda submission_id: None)  # it takes SIGTERM, and its time
    run_pause(running.owner, running)
    run_end_now(running.owner, now(running))
    runs_reconcile_now()
    say("stopped", 1)
    assert (now(running).state, now(running).reason) == ("paused", "")


@pytest.mark.parametrize("state", ["queued", "starting", "running", "paused", "finished", "failed"])
def test_only_a_run_that_is_stopping_can_be_ended_at_once(run: Run, state: str) -> None:
    Run.objects.update(state=state)
    with pytest.raises(TransitionRefused, match="stop or pause it first"):
        run_end_now(run.owner, now(run))


def test_ending_now_is_refused_to_viewers_and_audited(running: Run, stranger: User) -> None:
    run_stop(running.owner, running)
    with pytest.raises(PermissionDenied):
        run_end_now(stranger, now(running))
    run_do(running.owner, now(running), "end_now")
    assert AuditEntry.objects.filter(act="run.end_now", target=running.pk).count() == 1


def test_a_resumed_run_is_not_ended_by_an_old_request(running: Run, launcher: FakeLauncher) -> None:
    run_stop(running.owner, running)
    run_end_now(running.owner, now(running))
    for _ in range(2):
        runs_reconcile_now()
    run_resume(running.owner, now(running))
    runs_reconcile_now()
    launcher.set(job(running, 2), JobState.RUNNING)
    launcher.stopped.clear()
    run_stop(running.owner, now(running))
    runs_reconcile_now()
    assert launcher.stopped == [] and now(running).end_requested_at is None


def test_a_launcher_that_cannot_stop_is_told_to_the_owner(
    running: Run, launcher: FakeLauncher, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(submission_id: str) -> None:
        raise LauncherFailure("Ray does not stop it.")

    monkeypatch.setattr(launcher, "stop", refuse)
    run_stop(running.owner, running)
    run_end_now(running.owner, now(running))
    runs_reconcile_now()
    assert (now(running).state, now(running).reason) == ("stopping", "Ray does not stop it.")


@pytest.mark.extended
def test_fifty_losses_with_progress_between_are_followed_by_another_attempt(
    running: Run, launcher: FakeLauncher, say: Say
) -> None:
    assert running.config["run"]["max_attempts"] == 3
    for number in range(1, 51):
        saved(running, 10 * number, number)
        launcher.set(job(running, number), JobState.FAILED)
        runs_reconcile_now()
        assert now(running).state == "starting", number
        launcher.set(job(running, number + 1), JobState.RUNNING)
        say("running", 10 * number, attempt=number + 1)
    assert running.attempts.count() == 51
    say("finished", 600, attempt=51)
    assert now(running).state == "finished"


def test_losses_without_progress_since_last_checkpoint_end_run(running: Run, launcher: FakeLauncher) -> None:
    saved(running, 10, 1)
    for number in (1, 2, 3, 4):
        assert now(running).state in ("running", "starting"), number
        launcher.set(job(running, number), JobState.FAILED)
        runs_reconcile_now()
    assert now(running).state == "failed"
    assert "after 3 attempts" in now(running).reason
    assert running.attempts.count() == 4, "the first one made progress"


def test_a_resume_by_a_person_begins_the_count_again(running: Run, launcher: FakeLauncher) -> None:
    for number in (1, 2, 3):
        launcher.set(job(running, number), JobState.FAILED)
        runs_reconcile_now()
    assert now(running).state == "failed"
    run_resume(running.owner, now(running))
    runs_reconcile_now()
    for number in (4, 5):
        launcher.set(job(running, number), JobState.FAILED)
        runs_reconcile_now()
        assert now(running).state == "starting", number
    launcher.set(job(running, 6), JobState.FAILED)
    runs_reconcile_now()
    assert now(running).state == "failed"


def test_a_run_of_one_attempt_is_not_started_again_for_its_progress(
    running: Run, launcher: FakeLauncher
) -> None:
    config = running.config
    config["run"]["max_attempts"] = 1
    Run.objects.update(config=config)
    saved(running, 10, 1)
    launcher.set(job(running), JobState.FAILED)
    runs_reconcile_now()
    assert now(running).state == "failed"


def test_an_error_that_would_come_again_is_not_retried(running: Run, say: Say) -> None:
    saved(running, 10, 1)
    say("failed", 10, message="the model cannot be loaded")
    assert (now(running).state, now(running).reason) == ("failed", "The model cannot be loaded.")


@pytest.mark.parametrize(
    ("error", "cause", "remedy"),
    [
        (
            ModelError("no folder '/m'", remedy="set policies.*.model to one; not a file"),
            "No folder '/m'.",
            "Set policies.*.model to one; not a file.",
        ),
        (
            CheckpointError("disk quota: use at 100 percent"),
            "Disk quota: use at 100 percent.",
            "Resume from another checkpoint.",
        ),
    ],
)
def test_the_remedy_of_a_workers_error_reaches_page_and_rest(
    running: Run, ada: Client, tmp_path: Path, error: TroupeError, cause: str, remedy: str
) -> None:
    """The error is pickled between worker and driver, its fault is spooled as an event."""
    folder = RunFolder(tmp_path)
    reporter = Reporter(folder, running.pk, 1)
    fault = fault_of(pickle.loads(pickle.dumps(error)))
    reporter.status("failed", 1, fault.cause, remedy=fault.remedy)
    reporter.close()
    assert spool_store(running.pk, folder.spool(1))
    page = ada.get(f"/runs/{running.pk}/").content.decode()
    document = ada.get(f"/api/v1/runs/{running.pk}/").json()
    assert (document["reason"], document["remedy"]) == (cause, remedy)
    assert escape(cause) in page and escape(remedy) in page
    run_resume(running.owner, now(running))
    assert (now(running).reason, now(running).remedy) == ("", "")


def test_a_reason_is_plain_and_short_whatever_the_driver_says(running: Run, say: Say) -> None:
    raised = "\n".join(f'  File "/x.py", line {line}, in f' for line in range(3000))
    text = f"\x1b[36mray::RolloutCoordinator.collect()\x1b[39m (pid=1)\n{raised}\nworkers.protocol.WorkerLost: planner died"
    say("failed", 1, message=text[-20000:], facts={"retry": True})
    assert running.attempts.get().reason == "workers.protocol.WorkerLost: planner died."
    assert now(running).reason == "Attempt 1 was lost: workers.protocol.WorkerLost: planner died."
    assert now(running).remedy == STARTS_AGAIN


def test_a_job_of_a_previous_bundled_ray_is_dead_immediately(
    run: Run, launcher: FakeLauncher, say: Say, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "ray-start"
    monkeypatch.setenv(bundled_ray.VARIABLE, str(file))
    bundled_ray.note_start(file)
    run_submit_now(run.pk)
    say("running")
    launcher.set(job(run), JobState.MISSING)
    runs_reconcile_now()
    assert now(run).state == "running", "the same Ray may have forgotten it, and the driver live"
    bundled_ray.note_start(file)
    launcher.set(job(run), JobState.UNKNOWN)  # the new start does not answer yet
    runs_reconcile_now()
    assert now(run).state == "starting"
    assert run.attempts.get(number=1).reason == "Ray was restarted and ended the run."


def test_a_job_of_another_cluster_survives_a_start_of_bundled_ray(
    run: Run, launcher: FakeLauncher, say: Say, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_submit_now(run.pk)
    say("running")
    monkeypatch.setenv(bundled_ray.VARIABLE, str(tmp_path / "ray-start"))
    bundled_ray.note_start(tmp_path / "ray-start")
    launcher.set(job(run), JobState.MISSING)
    runs_reconcile_now()
    assert now(run).state == "running"


def test_a_driver_that_only_starts_is_not_said_to_be_silent(run: Run, launcher: FakeLauncher) -> None:
    run_submit_now(run.pk)
    launcher.set(job(run), JobState.RUNNING)
    silent_for(run.attempts.get(), 60)
    run.attempts.update(heartbeat_at=None)
    runs_reconcile_now()
    assert now(run).reason == ""
    silent_for(run.attempts.get(), 200)
    run.attempts.update(heartbeat_at=None)
    runs_reconcile_now()
    assert now(run).reason == "The job is running, but the driver started 200 s ago and has not reported."


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0.4, "0 s"), (8, "8 s"), (42, "40 s"), (104, "105 s"), (700, "12 min"), (8000, "2.2 h")],
)
def test_durations_are_rounded_for_people(seconds: float, words: str) -> None:
    assert spelled(seconds) == words
