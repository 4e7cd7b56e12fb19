"""Damaged checkpoints: marked, shown, refused with the remedy, passed over, and free to be deleted."""

import shutil
import time
from pathlib import Path
from typing import Any

import pytest
from django.test import Client

from tests.webapp.api.conftest import caller
from tests.webapp.checkpoints.conftest import Make
from tests.webapp.elements import elements, text_of, texts_of
from training_core.errors import ConfigError
from troupe_client.documents.checkpoints import CheckpointsPruneBody
from webapp.accounts.models import User
from webapp.checkpoints.models import Checkpoint
from webapp.checkpoints.services import checkpoint_do, checkpoint_latest, checkpoints_prune, checkpoints_store
from webapp.ingest.services import batch_store
from webapp.jobs.models import Job
from webapp.jobs.services import job_folder, job_follow
from webapp.jobs.starting import Subject, job_create
from webapp.runs.models import Attempt, Run
from webapp.runs.states import TransitionRefused
from webapp.scheduling import submission
from webapp.scheduling.forking import run_fork, run_fork_named
from webapp.scheduling.services import run_resume
from workers.launchers.launcher import Capacity
from workers.launchers.registry import FakeLauncher
from workers.reporting.encoding import encode
from workers.telemetry.events import CheckpointEvent

pytestmark = pytest.mark.django_db(transaction=True)
WHY = "planner/model.safetensors has 4 bytes instead of 18"


@pytest.fixture
def stopped(run: Run) -> Run:
    """A run that waits for somebody to resume it."""
    Run.objects.filter(pk=run.pk).update(state="stopped")
    run.refresh_from_db()
    return run


@pytest.fixture
def launcher(monkeypatch: pytest.MonkeyPatch) -> FakeLauncher:
    fake = FakeLauncher(devices=Capacity(64.0, 0.0, 64.0, 0.0))
    monkeypatch.setattr(submission, "make_launcher", lambda kind: fake)
    return fake


def model(home: Path, row: Checkpoint) -> Path:
    return home / "runs" / row.run_id / row.path / "planner" / "model.safetensors"


def cut(home: Path, row: Checkpoint) -> None:
    model(home, row).write_bytes(b"weig")


def event(run: Run, **fields: Any) -> CheckpointEvent:
    base = {"run": run.pk, "attempt": 1, "producer": "p", "seq": 1, "time": time.time(), "type": "checkpoint"}
    return CheckpointEvent(**(base | {"bytes": 5} | fields))


def test_what_a_driver_reports_marks_the_row_and_keeps_the_rest(stopped: Run, make: Make) -> None:
    row = make(6, best=True, metrics={"eval/success": 0.5})
    checkpoints_store(stopped, 7, [event(stopped, iteration=6, path=row.path, bytes=0, damaged=WHY)])
    row.refresh_from_db()
    facts = (row.damaged, row.size, row.metrics, row.best, row.cursor)
    assert facts == (WHY, 1000, {"eval/success": 0.5}, True, 7)
    checkpoints_store(stopped, 8, [event(stopped, iteration=6, path=row.path, bytes=9)])
    row.refresh_from_db()
    assert (row.damaged, row.size) == ("", 9), "an attempt wrote it again"


def test_the_newest_whole_one_is_resumed_from(
    stopped: Run, user: User, make: Make, launcher: FakeLauncher
) -> None:
    make(4), make(6, damaged=WHY)
    run_resume(user, stopped)
    assert submission.run_submit_now(stopped.pk)
    [launch] = launcher.launches
    assert launch.resume_from == launch.folder / "checkpoints" / "iteration-000004"
    assert launch.fall_back


@pytest.mark.parametrize("name", ["4", "iteration-000004"])
def test_a_chosen_checkpoint_is_resumed_from_and_no_other(
    name: str, stopped: Run, user: User, make: Make, launcher: FakeLauncher
) -> None:
    chosen = make(4)
    make(6)
    assert run_resume(user, stopped, name).resume_from == chosen.path
    with pytest.raises(TransitionRefused, match="would resume from it"):
        checkpoint_do(user, chosen, "delete")
    assert submission.run_submit_now(stopped.pk)
    [launch] = launcher.launches
    assert (launch.resume_from, launch.fall_back) == (launch.folder / chosen.path, False)
    attempt = stopped.attempts.get()
    assert (attempt.resumed_from, attempt.exact) == (chosen.path, True)
    assert Run.objects.get(pk=stopped.pk).resume_from == "", "it belongs to the attempt now"


def test_after_a_choice_later_attempts_stay_on_its_branch(stopped: Run, make: Make) -> None:
    chosen = make(4)
    make(6)
    resumed = {"resumed_from": chosen.path, "resumed_iteration": chosen.iteration}
    Attempt.objects.create(run=stopped, number=2, submission_id="x", exact=True, **resumed)
    assert checkpoint_latest(stopped) == chosen, "6 is of the attempt before"
    own = make(5, attempt=2)
    assert checkpoint_latest(stopped) == own


@pytest.mark.parametrize(
    ("name", "error"), [("6", TransitionRefused), ("5", TransitionRefused), ("x", ConfigError)]
)
def test_a_chosen_checkpoint_must_be_there_and_whole(
    name: str, error: type[Exception], stopped: Run, user: User, make: Make, tmp_path: Path
) -> None:
    cut(tmp_path, make(6))
    make(5, removed=True)
    with pytest.raises(error, match="damaged: planner|was removed|is not a checkpoint"):
        run_resume(user, stopped, name)
    assert Run.objects.get(pk=stopped.pk).state == "stopped"
    assert Checkpoint.objects.get(iteration=6).damaged == (WHY if name == "6" else "")


def test_api_and_page_resume_from_a_named_one(stopped: Run, user: User, make: Make, client: Client) -> None:
    make(4), make(6, damaged=WHY), make(8)
    for address, words in (
        (f"/runs/{stopped.pk}/act/resume/", {}),
        (f"/runs/{stopped.pk}/edit/", {"edits": ""}),
    ):
        Run.objects.filter(pk=stopped.pk).update(state="stopped", resume_from="")
        client.force_login(user)
        client.post(address, words | {"checkpoint": "4"})
        assert Run.objects.get(pk=stopped.pk).resume_from.endswith("000004")


def test_pages_and_api_show_the_damage(stopped: Run, user: User, make: Make, ada: Client) -> None:
    make(4), make(6, damaged=WHY)
    page = ada.get(f"/runs/{stopped.pk}/checkpoints/")
    assert WHY in text_of(page) and "damaged" in texts_of(page, ".badge")
    labels = [each["aria-label"] for each in elements(page, "[aria-label]")]
    assert "Resume from iteration 4" in labels and "Resume from iteration 6" not in labels
    assert "Fork iteration 6" not in labels
    assert "damaged" in texts_of(ada.get(f"/runs/{stopped.pk}/"), ".badge")
    config = ada.get(f"/runs/{stopped.pk}/config/")
    assert elements(config, "option[value=4]") and not elements(config, "option[value=6]")
    rows = caller(user, "read")(f"runs/{stopped.pk}/checkpoints/").json()["results"]
    assert [row["damaged"] for row in rows] == [WHY, ""]


def test_a_damaged_last_one_can_be_deleted(stopped: Run, user: User, make: Make, tmp_path: Path) -> None:
    first, torn = make(4), make(6)
    with pytest.raises(TransitionRefused, match="would resume from it"):
        checkpoint_do(user, torn, "delete")
    cut(tmp_path, torn)
    assert checkpoint_do(user, torn, "delete").removed
    assert checkpoint_latest(stopped) == first
    with pytest.raises(TransitionRefused, match="would resume from it"):
        checkpoint_do(user, first, "delete")


def test_a_damaged_one_that_was_forked_can_be_deleted_unless_pinned(
    stopped: Run, user: User, make: Make, tmp_path: Path
) -> None:
    row = make(4)
    make(6)
    run_fork(user, row)
    checkpoint_do(user, row, "pin")
    cut(tmp_path, row)
    with pytest.raises(TransitionRefused, match="unpin it first"):
        checkpoint_do(user, row, "delete")
    checkpoint_do(user, row, "unpin")
    assert checkpoint_do(user, row, "delete").removed


def test_pruning_counts_whole_ones_and_deletes_damaged_ones(stopped: Run, user: User, make: Make) -> None:
    make(2), make(4), make(6, damaged=WHY)
    assert checkpoints_prune(user, stopped, CheckpointsPruneBody(last=1, best=0)).kept == [4]


def test_a_row_whose_files_are_gone_can_be_deleted(
    stopped: Run, user: User, make: Make, tmp_path: Path
) -> None:
    make(4)
    row = make(6)
    shutil.rmtree(tmp_path / "runs" / stopped.pk / row.path)
    assert checkpoint_do(user, row, "delete").removed


def test_restored_files_end_the_mark(stopped: Run, user: User, make: Make) -> None:
    row = make(6, damaged=WHY)
    assert run_resume(user, stopped, "6").resume_from == row.path
    row.refresh_from_db()
    assert row.damaged == ""


def test_files_that_only_look_whole_keep_mark(stopped: Run, user: User, make: Make, tmp_path: Path) -> None:
    row = make(6, damaged=WHY)
    model(tmp_path, row).write_bytes(b"x" * 18)
    with pytest.raises(TransitionRefused, match="SHA-256 differs"):
        run_resume(user, stopped, "6")


def test_forks_and_jobs_of_a_damaged_one_are_refused(
    stopped: Run, user: User, make: Make, tmp_path: Path
) -> None:
    row = make(6)
    cut(tmp_path, row)
    for use in (
        lambda: run_fork(user, row),
        lambda: job_create(user, stopped.project, Job.Kind.EVALUATE, Subject(stopped.config, stopped, row)),
    ):
        with pytest.raises(TransitionRefused, match=f"of iteration 6 of run {stopped.pk} is damaged: {WHY}"):
            use()
    assert (Run.objects.count(), Job.objects.count()) == (1, 0)
    assert Checkpoint.objects.get(pk=row.pk).damaged == WHY
    answer = caller(user, "launch")(f"runs/{stopped.pk}/checkpoints/6/fork/", {})
    assert (answer.status_code, WHY in answer.json()["detail"]) == (409, True)


def test_a_job_that_finds_damage_marks_the_checkpoint(
    stopped: Run, user: User, make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("webapp.jobs.services.make_launcher", lambda kind: FakeLauncher())
    monkeypatch.setattr("webapp.jobs.starting._soon", lambda pk: None)
    row = make(6)
    job = job_create(user, stopped.project, Job.Kind.EVALUATE, Subject(stopped.config, stopped, row))
    Job.objects.filter(pk=job.pk).update(state="running", submission_id="j")
    job.refresh_from_db()
    folder = job_folder(job)
    folder.open("", {})
    folder.write("damage", {"which": "checkpoint", "found": WHY})
    folder.write("error", {"reason": f"the checkpoint is damaged: {WHY}"})
    assert (job_follow(job).state, Checkpoint.objects.get(pk=row.pk).damaged) == ("failed", WHY)


def told(run: Run, number: int, *events: dict[str, Any]) -> None:
    """Events of an attempt, as its driver sends them."""
    head = {"run": run.pk, "attempt": number, "producer": f"p{number}", "time": time.time()}
    lines = [encode(head | {"seq": seq} | fields) for seq, fields in enumerate(events, start=1)]
    batch_store(run.pk, b"\n".join(lines), "")


def test_the_attempt_and_the_page_say_where_it_resumed(stopped: Run, make: Make, ada: Client) -> None:
    make(4), make(6)
    Run.objects.filter(pk=stopped.pk).update(state="queued")
    resumed = {"resumed_from": "checkpoints/iteration-000006", "resumed_iteration": 6}
    Attempt.objects.create(run=stopped, number=2, submission_id="x", **resumed)
    note = f"the checkpoint of iteration 6 is damaged: {WHY}; resumed from iteration 4"
    facts = {"resumed_from": "iteration-000004", "resume_note": note}
    told(stopped, 2, {"type": "status", "state": "starting", "iteration": 0, "facts": facts})
    attempt = stopped.attempts.get()
    assert (attempt.resumed_from, attempt.resumed_iteration) == ("checkpoints/iteration-000004", 4)
    assert note in ada.get(f"/runs/{stopped.pk}/").content.decode()


def test_a_fork_that_finds_damage_marks_the_parents_checkpoint(stopped: Run, user: User, make: Make) -> None:
    row = make(6)
    fork = run_fork(user, row)
    Attempt.objects.create(run=fork, number=1, submission_id="f")
    status = {"type": "status", "state": "starting", "iteration": 0, "facts": {"origin_damaged": WHY}}
    told(fork, 1, status)
    row.refresh_from_db()
    assert row.damaged == WHY


def test_last_is_looked_up_again_where_retention_was_faster(
    run: Run, user: User, make: Make, tmp_path: Path
) -> None:
    Run.objects.filter(pk=run.pk).update(state="running")
    there = make(4)
    for iteration in (6, 8):
        shutil.rmtree(tmp_path / "runs" / run.pk / make(iteration).path)
    assert run_fork_named(user, run.pk, "last").parent_checkpoint == there.path
    with pytest.raises(
        TransitionRefused, match="iteration-000008 of run .* was deleted a moment ago; take another"
    ):
        run_fork_named(user, run.pk, "8")
    assert not list((tmp_path / "runs" / run.pk / "checkpoints").glob(".pinned/*8"))


def test_refusals_do_not_tell_the_servers_folders(run: Run, user: User, make: Make, tmp_path: Path) -> None:
    row = make(6)
    shutil.rmtree(tmp_path / "runs")
    for act in ("download", "fork", "pin", "delete"):
        call = caller(user, "admin")
        path = f"runs/{run.pk}/checkpoints/6/{act}/"
        Run.objects.filter(pk=run.pk).update(state="finished")
        answer = call(path) if act == "download" else call(path, {})
        assert answer.status_code == 409, act
        assert "not on the web server's machine" in answer.json()["detail"]
        assert str(tmp_path) not in answer.content.decode()
    assert row.path == "checkpoints/iteration-000006"
