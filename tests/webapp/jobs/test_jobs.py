"""Short jobs on the web side: who may, what is refused, what becomes of what a process leaves."""

from datetime import timedelta
from typing import Any

import pytest
from django.core.exceptions import PermissionDenied
from django.http import Http404
from django.test import Client
from django.utils import timezone

from tests.webapp.elements import elements, text_of
from training_core.errors import ConfigError
from troupe_client.documents.jobs import JobBody
from webapp.accounts.models import AuditEntry, Project, User
from webapp.checkpoints.models import Checkpoint
from webapp.jobs.models import Job
from webapp.jobs.services import (
    AT_ONCE,
    SUBMIT_LOCK,
    job_cancel,
    job_episodes,
    job_folder,
    job_follow,
    job_get,
    job_say,
    jobs_follow,
    jobs_submit,
    moment,
)
from webapp.jobs.starting import Subject, checkpoint_find, job_create, job_start
from webapp.reconciliation.tasks import LOOKING_LOCK
from webapp.runs.models import Run
from webapp.runs.states import TransitionRefused
from workers.launchers.launcher import JobLaunch, JobState, LauncherFailure, LauncherStarting
from workers.launchers.registry import FakeLauncher
from workers.storage.folders import JobFolder

pytestmark = pytest.mark.django_db
HOSTILE = "<script>alert(1)</script>"


@pytest.fixture
def checkpoint(run: Run) -> Checkpoint:
    return kept(run, 20)


def kept(run: Run, iteration: int, **fields: Any) -> Checkpoint:
    return Checkpoint.objects.create(
        run=run, attempt=1, cursor=1, iteration=iteration, path=f"checkpoints/iteration-{iteration:06d}",
        size=1, time=timezone.now(), **fields,
    )  # fmt: skip


def episode(**fields: Any) -> dict[str, Any]:
    said = {
        "text": HOSTILE, "token_ids": [1], "tokens": ["x"], "logprobs": [0.0], "versions": [0],
        "stop_reason": "stop", "local_reward": 0.0, "team_reward": 1.0, "reward": 1.0,
    }  # fmt: skip
    turn = {
        "index": 0, "role": "planner", "policy": "planner", "executed": 0, "prompt_ids": [], "board": None,
        "messages": [{"role": "user", "content": HOSTILE}], "candidates": [said, said],
    }  # fmt: skip
    return {
        "title": HOSTILE, "outcome": HOSTILE, "success": True, "failed": False, "error": "",
        "episode_return": 1.0, "turns": [turn],
    } | fields  # fmt: skip


def test_a_job_is_started_and_its_result_taken_over(
    user: User, project: Project, run: Run, checkpoint: Checkpoint, launcher: FakeLauncher
) -> None:
    job = job_create(user, project, "evaluate", Subject(run.config, run, checkpoint), {"episodes": 5})
    assert job.state == "queued" and jobs_submit() == 1
    request = job_folder(job).read("request") or {}
    assert request["checkpoint"].endswith(f"runs/{run.pk}/checkpoints/iteration-000020")
    assert request["parameters"] == {"episodes": 5, "kind": "eval", "first": 0, "swapped": False}
    assert [launch.submission_id for launch in launcher.short] == [f"troupe-job-{job.pk}"]
    job_folder(job).write("progress", {"done": 0.5, "text": "half"})
    job.refresh_from_db()
    job = job_follow(job)
    assert (job.state, job.progress, job.message) == ("running", 0.5, "half")
    job_folder(job).keep([episode()])
    job_folder(job).write("result", {"success": 1.0, "episodes": 1})
    jobs_follow()
    job.refresh_from_db()
    assert (job.state, job.progress, job.result["success"]) == ("finished", 1.0, 1.0)
    job_folder(job).episodes.unlink()
    assert job_episodes(job) == [episode()]
    assert AuditEntry.objects.get(act="job.create").target == job.pk


def test_base_models_are_prepared_from_the_form_and_listed(
    project: Project, ada: Client, launcher: FakeLauncher
) -> None:
    form = ada.get("/experiments/new/?preset=plan_path_duo")
    assert text_of(form, "option[value=smollm2]").startswith("SmolLM2-135M-Instruct")
    assert elements(form, "[formaction=/jobs/start/prepare/]")
    ada.post("/jobs/start/prepare/", {"preset": "plan_path_duo", "project": "lab"})
    job = Job.objects.get()
    assert job.kind == "prepare" and jobs_submit() == 1
    models = [{"name": "smollm2", "vocabulary": 49152, "parameters": 134515008, "sha256": "b179c9523d0e6a0f"}]
    job_folder(job).write("result", {"models": models})
    jobs_follow()
    page = ada.get(f"/jobs/{job.pk}/").content.decode()
    assert "Base models of" in page and "b179c9523d0e" in page and "49,152" in page.replace("\u202f", ",")


def test_only_so_many_at_once_and_the_oldest_first(
    user: User, project: Project, run: Run, launcher: FakeLauncher
) -> None:
    jobs = [job_create(user, project, "dry_run", Subject(run.config)) for _ in range(AT_ONCE + 1)]
    assert jobs_submit() == AT_ONCE
    assert [launch.job for launch in launcher.short] == [job.pk for job in jobs[:AT_ONCE]]
    job_folder(jobs[0]).write("error", {"reason": "no such model"})
    jobs_follow()
    states = list(Job.objects.order_by("created_at").values_list("state", "message"))
    assert states[0] == ("failed", "no such model") and states[-1][0] == "running"


def test_a_silent_death_is_a_failure_and_an_unreachable_process_is_not(
    user: User, project: Project, run: Run, launcher: FakeLauncher
) -> None:
    job = job_create(user, project, "dry_run", Subject(run.config))
    jobs_submit()
    launcher.reachable = False
    job.refresh_from_db()
    assert job_follow(job).state == "running"
    launcher.reachable = True
    launcher.set(f"troupe-job-{job.pk}", JobState.FAILED, "killed")
    assert (job_follow(job).state, job_get(user, job.pk).message) == ("failed", "killed")


def test_a_job_that_is_being_submitted_is_not_missed(
    user: User, project: Project, run: Run, launcher: FakeLauncher
) -> None:
    job = job_create(user, project, "dry_run", Subject(run.config))
    jobs_submit()
    launcher.set(f"troupe-job-{job.pk}", JobState.MISSING)
    job.refresh_from_db()
    assert job_follow(job).state == "running"
    Job.objects.update(started_at=timezone.now() - timedelta(minutes=2))
    assert job_follow(job).state == "failed"


def test_a_launcher_that_refuses_fails_the_job_in_words(
    user: User, project: Project, run: Run, launcher: FakeLauncher, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: object) -> str:
        raise LauncherFailure("the job was refused")

    monkeypatch.setattr(launcher, "submit", refuse)
    job = job_create(user, project, "dry_run", Subject(run.config))
    assert jobs_submit() == 0
    job.refresh_from_db()
    assert (job.state, job.message) == ("failed", "the job was refused")


def test_jobs_wait_in_order_for_a_cluster_that_does_not_answer(
    user: User, project: Project, run: Run, launcher: FakeLauncher
) -> None:
    """As in the first seconds of a start: Ray answers after the first page."""
    jobs = [job_create(user, project, kind, Subject(run.config)) for kind in ("dry_run", "check")]
    launcher.reachable = False
    assert jobs_submit() == 0
    waiting = list(Job.objects.order_by("created_at").values_list("state", "message", "started_at"))
    assert waiting == [("queued", "the fake is out of reach", None), ("queued", "", None)]
    launcher.reachable = True
    assert jobs_submit() == 2
    assert [launch.job for launch in launcher.short] == [job.pk for job in jobs]
    assert set(Job.objects.values_list("state", "message")) == {("running", "starting")}


def test_a_job_waits_for_a_cluster_that_does_not_start_jobs_yet(
    user: User, project: Project, run: Run, launcher: FakeLauncher, monkeypatch: pytest.MonkeyPatch
) -> None:
    def not_yet(_: object) -> str:
        raise LauncherStarting("Ray refused the job: 500 No available agent")

    job = job_create(user, project, "dry_run", Subject(run.config))
    with monkeypatch.context() as patch:
        patch.setattr(launcher, "submit", not_yet)
        assert jobs_submit() == 0
    job.refresh_from_db()
    assert job.state == "queued" and jobs_submit() == 1


@pytest.mark.parametrize("reachable", [True, False])
def test_a_job_that_is_cancelled_during_its_submission_stays_cancelled(
    user: User,
    project: Project,
    run: Run,
    launcher: FakeLauncher,
    monkeypatch: pytest.MonkeyPatch,
    reachable: bool,
) -> None:
    def cancelled_meanwhile(_: object) -> str:
        job_cancel(user, job)
        raise LauncherFailure("no answer")

    monkeypatch.setattr(launcher, "submit", cancelled_meanwhile)
    launcher.reachable = reachable
    job = job_create(user, project, "dry_run", Subject(run.config))
    assert jobs_submit() == 0
    job.refresh_from_db()
    assert job.state == "cancelled"


def test_a_process_that_starts_after_its_cancellation_is_stopped(
    user: User, project: Project, run: Run, launcher: FakeLauncher, monkeypatch: pytest.MonkeyPatch
) -> None:
    submit = launcher.submit

    def submit_late(launch: JobLaunch) -> str:
        job_cancel(user, job)
        return submit(launch)

    monkeypatch.setattr(launcher, "submit", submit_late)
    job = job_create(user, project, "dry_run", Subject(run.config))
    assert jobs_submit() == 0
    assert launcher.status(f"troupe-job-{job.pk}").state is JobState.STOPPED


def test_cancelling_stops_the_process(user: User, project: Project, run: Run, launcher: FakeLauncher) -> None:
    job = job_create(user, project, "dry_run", Subject(run.config))
    jobs_submit()
    job.refresh_from_db()
    assert job_cancel(user, job).state == "cancelled"
    assert launcher.stopped == [f"troupe-job-{job.pk}"]
    assert job_cancel(user, job).state == "cancelled" and len(launcher.stopped) == 1


def test_what_a_job_may_be_asked_for(user: User, project: Project, run: Run, checkpoint: Checkpoint) -> None:
    subject = Subject(run.config, run, checkpoint)
    for kind, parameters, field in (
        ("evaluate", {"episodes": 0}, "episodes"),
        ("evaluate", {"epsiodes": 1}, "epsiodes"),
        ("talk", {"roles": ["stranger"]}, "roles"),
        ("talk", {"roles": []}, "roles"),
        ("sing", {}, "kind"),
        ("match", {}, "other"),
    ):
        with pytest.raises(ConfigError) as refused:
            job_create(user, project, kind, subject, parameters)
        assert field in refused.value.fields
    shared = Subject(run.config, run, checkpoint, overrides={"team.roles.executor.policy": "planner"})
    with pytest.raises(ConfigError, match="all roles share one policy"):
        job_create(user, project, "evaluate", shared, {"swapped": True})
    checkpoint.removed = True
    with pytest.raises(TransitionRefused, match="removed"):
        job_create(user, project, "evaluate", subject)
    assert not Job.objects.exists()


def test_strangers_and_viewers(
    user: User, stranger: User, project: Project, run: Run, launcher: FakeLauncher
) -> None:
    job = job_create(user, project, "talk", Subject(run.config, run), {"roles": ["planner"]})
    with pytest.raises(PermissionDenied):
        job_create(stranger, project, "dry_run", Subject(run.config))
    with pytest.raises(Http404):
        job_get(stranger, job.pk)
    project.memberships.create(user=stranger, level="viewer")
    assert job_get(stranger, job.pk) == job
    for act in (lambda: job_cancel(stranger, job), lambda: job_say(stranger, job, 0, "x")):
        with pytest.raises(PermissionDenied):
            act()


def test_checkpoints_by_name(user: User, stranger: User, run: Run) -> None:
    best, last = kept(run, 10, best=True), kept(run, 20)
    kept(run, 30, removed=True)
    found = {
        name: checkpoint_find(user, run.pk, name)
        for name in ("", "last", "latest", "20", "iteration-000020", last.path)
    }
    assert set(found.values()) == {last} and checkpoint_find(user, run.pk, "best") == best
    for name in ("30", "none", "\0", "9" * 30):
        with pytest.raises(Http404):
            checkpoint_find(user, run.pk, name)
    with pytest.raises(Http404):
        checkpoint_find(stranger, run.pk, "")


def test_a_match_needs_the_same_roles(user: User, run: Run, checkpoint: Checkpoint) -> None:
    other = Run.objects.create(
        project=run.project, owner=user, name="other", config=run.config | {"team": {"roles": {"x": {}}}}, iterations=1
    )  # fmt: skip
    with pytest.raises(ConfigError, match="other roles"):
        job_start(user, JobBody(kind="match", run=run.pk, other_run=other.pk))


def test_speaking_is_for_whose_turn_it_is(
    user: User, project: Project, run: Run, launcher: FakeLauncher, ada: Client
) -> None:
    job = job_create(user, project, "talk", Subject(run.config, run), {"roles": ["planner"]})
    jobs_submit()
    job.refresh_from_db()
    with pytest.raises(TransitionRefused):
        job_say(user, job, 0, "too early")
    move = {"role": "executor", "saw": HOSTILE, "text": HOSTILE, "info": HOSTILE}
    asked = {"turn": 0, "role": "planner", "prompt": "", "saw": HOSTILE, "board": None}
    job_folder(job).write("moment", {"moves": [move], "asked": asked, "title": HOSTILE})
    page = ada.get(f"/jobs/{job.pk}/").content.decode()
    assert "Answer of planner" in page and "hx-get" not in page and HOSTILE not in page
    said = ada.post(f"/jobs/{job.pk}/say/", {"turn": "0", "text": "left"}, headers={"HX-Request": "true"})
    assert "waiting for the other roles" in said.content.decode() and job_folder(job).said(0) == "left"
    assert ada.post(f"/jobs/{job.pk}/say/", {"turn": "x", "text": "again"}).status_code == 302
    assert job_folder(job).said(1) is None


def test_a_question_that_follows_at_once_is_kept(
    user: User, project: Project, run: Run, launcher: FakeLauncher, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = job_create(user, project, "talk", Subject(run.config, run), {"roles": ["planner"]})
    jobs_submit()
    job.refresh_from_db()
    asked = {"turn": 0, "role": "planner", "prompt": "", "saw": "", "board": None}
    job_folder(job).write("moment", {"moves": [], "asked": asked})

    def say(folder: JobFolder, turn: int, text: str) -> None:
        folder.write("moment", {"moves": [], "asked": asked | {"turn": turn + 1}})

    monkeypatch.setattr(JobFolder, "say", say)
    job_say(user, job, 0, "left")
    assert (moment(job) or {})["asked"]["turn"] == 1


def test_jobs_do_not_wait_for_the_reconciliation_of_runs() -> None:
    assert SUBMIT_LOCK != LOOKING_LOCK


def test_pages_of_hostile_episodes(
    user: User, project: Project, run: Run, checkpoint: Checkpoint, launcher: FakeLauncher, ada: Client
) -> None:
    job = job_create(user, project, "evaluate", Subject(run.config, run, checkpoint))
    jobs_submit()
    job_folder(job).keep([episode(), episode(failed=True, error=HOSTILE)])
    job_folder(job).write(
        "result", {"success": 1.0, "return": 1.0, "episodes": 2, "rewards": {"planner": 1.0}}
    )
    jobs_follow()
    for address in ("", "?episode=1", "?episode=99", "?episode=x", "fragment/"):
        page = ada.get(f"/jobs/{job.pk}/{address}")
        assert page.status_code == 200 and HOSTILE not in page.content.decode()
    assert "Evaluation of" in ada.get(f"/jobs/{job.pk}/").content.decode()
    assert job.pk in ada.get("/jobs/").content.decode()


def test_a_page_asks_often_while_an_answer_is_expected(
    user: User, project: Project, run: Run, launcher: FakeLauncher, ada: Client
) -> None:
    delays = []
    for kind, age in (("evaluate", 0), ("evaluate", 60), ("talk", 60)):
        job = job_create(
            user, project, kind, Subject(run.config, run), {"roles": ["planner"]} if kind == "talk" else {}
        )
        Job.objects.filter(pk=job.pk).update(created_at=timezone.now() - timedelta(seconds=age))
        delays.append(elements(ada.get(f"/jobs/{job.pk}/fragment/"), "#job")[0]["hx-trigger"])
    assert delays == [f"load delay:{wait}ms" for wait in (200, 700, 200)]


def test_the_dry_run_button_sends_the_form_as_it_stands(project: Project, ada: Client) -> None:
    said = ada.post("/jobs/start/dry_run/", {"preset": "plan_path_duo", "project": "lab", "run.seed": "7"})
    assert said.status_code == 302
    job = Job.objects.get()
    assert (job.kind, job.project, job.config["run"]["seed"]) == ("dry_run", project, 7)
    wrong = ada.post("/jobs/start/evaluate/", {"run": "none"})
    assert wrong.status_code == 404


def test_an_evaluation_with_swapped_policies_is_asked_for_by_a_tick(
    run: Run, checkpoint: Checkpoint, ada: Client, launcher: FakeLauncher
) -> None:
    page = ada.get(f"/runs/{run.pk}/checkpoints/").content.decode()
    assert "swap the policies between the roles" in page
    ada.post("/jobs/start/evaluate/", {"run": run.pk, "checkpoint": checkpoint.path, "swapped": "true"})
    job = Job.objects.get()
    assert job.parameters["swapped"] is True
    jobs_submit()
    seats = {"planner": "executor", "executor": "planner"}
    job_folder(job).write("result", {"success": 0.25, "episodes": 3, "seats": seats})
    jobs_follow()
    said = text_of(ada.get(f"/jobs/{job.pk}/"))
    assert "roles swapped" in said and "policies swapped: planner by executor, executor by planner" in said
