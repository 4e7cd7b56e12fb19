"""From queued to submitted, with a launcher that runs nothing: priority, age, devices, and workers at once."""

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from celery import Celery
from django.db import connection
from django.utils import timezone

from tests.webapp.scheduling.conftest import Say, another
from training_core.config.files import parse_config
from webapp.accounts.models import ApiToken
from webapp.accounts.tokens import token_find
from webapp.checkpoints.models import Checkpoint
from webapp.common import task_queue
from webapp.runs import lifecycle
from webapp.runs.models import Attempt, Run
from webapp.scheduling.services import run_stop
from webapp.scheduling.submission import run_submit_now
from workers.launchers.launcher import Capacity, Launch, LauncherFailure, driver_command, driver_variables
from workers.launchers.registry import FakeLauncher
from workers.sizing.placement import demand
from workers.storage.folders import RunFolder


@pytest.fixture
def wants(run: Run, launcher: FakeLauncher) -> float:
    """CPU cores of one run; the cluster has room for one and a half."""
    cores = demand(parse_config(run.config)).cpus
    launcher.devices = Capacity(cores * 1.5, 0.0, cores * 1.5, 0.0)
    return cores


def test_a_higher_priority_goes_first(run: Run, wants: float, launcher: FakeLauncher) -> None:
    urgent = another(run, priority=1)
    assert not run_submit_now(run.pk)
    run.refresh_from_db()
    assert run.reason == (
        f"Waiting for {wants:g} CPU cores, which another run is to get first, with a higher priority or an earlier launch."
    )
    assert run_submit_now(urgent.pk)


def test_an_older_one_goes_first(run: Run, wants: float, launcher: FakeLauncher) -> None:
    younger = another(run)
    assert not run_submit_now(younger.pk)
    assert run_submit_now(run.pk)


def test_both_start_where_both_fit(run: Run, wants: float, launcher: FakeLauncher) -> None:
    launcher.devices = Capacity(wants * 2, 0.0, wants * 2, 0.0)
    younger = another(run)
    assert run_submit_now(younger.pk)
    assert run_submit_now(run.pk)


def test_what_never_fits_keeps_nobody_waiting(run: Run, wants: float, launcher: FakeLauncher) -> None:
    large = another(run, priority=9)
    large.config["resources"]["environment_cpus"] = wants * 10
    large.save()
    assert run_submit_now(run.pk)


def test_a_small_one_does_not_overtake_a_large_one(run: Run, wants: float, launcher: FakeLauncher) -> None:
    """Else a stream of small runs would starve it."""
    another(run, state="running")
    large = another(run)
    large.config["resources"]["environment_cpus"] += wants * 0.4
    large.created_at = timezone.now() - timedelta(hours=1)
    large.save()
    launcher.devices = Capacity(wants * 2.2, 0.0, 0.0, 0.0)
    assert not run_submit_now(run.pk)
    run.refresh_from_db()
    assert "to get first" in run.reason


def test_a_broker_that_does_not_answer_raises_nothing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    away = Celery(broker=f"redis+socket://{tmp_path}/none.sock", set_as_current=False)
    away.conf.task_publish_retry_policy = {"max_retries": 1, "interval_start": 0, "interval_max": 0}
    monkeypatch.setattr(task_queue, "current_app", away)
    lifecycle.submit_soon("abc")
    assert "waits for the next periodic task" in caplog.text


def _submit(run_id: str) -> bool:
    try:
        return run_submit_now(run_id)
    finally:
        connection.close()


@pytest.mark.django_db(transaction=True)
def test_workers_at_once_submit_once(run: Run, launcher: FakeLauncher) -> None:
    with ThreadPoolExecutor(6) as pool:
        submitted = list(pool.map(_submit, [run.pk] * 6))
    assert submitted.count(True) == 1
    assert len(launcher.launches) == 1
    assert Attempt.objects.count() == 1


@pytest.mark.django_db(transaction=True)
def test_of_runs_that_want_the_same_devices_at_once_one_gets_them(run: Run, launcher: FakeLauncher) -> None:
    runs = [run.pk] + [
        Run.objects.create(project=run.project, owner=run.owner, name="r", config=run.config, iterations=1).pk
        for _ in range(5)
    ]
    launcher.devices = Capacity(2.0, 0.0, 2.0, 0.0)
    with ThreadPoolExecutor(6) as pool:
        submitted = list(pool.map(_submit, runs))
    assert submitted.count(True) <= 1, "the oldest one alone; whoever was asked before it waits its turn"
    run_submit_now(run.pk)
    run.refresh_from_db()
    assert (run.state, len(launcher.launches)) == ("starting", 1)
    assert Run.objects.filter(state="queued", reason__startswith="Waiting for").count() == 5


def test_a_queued_run_is_submitted_once(run: Run, launcher: FakeLauncher) -> None:
    assert run_submit_now(run.pk)
    assert not run_submit_now(run.pk)
    run.refresh_from_db()
    attempt = run.attempts.get()
    assert (run.state, attempt.state, attempt.number) == ("starting", "live", 1)
    assert (
        [launch.submission_id for launch in launcher.launches]
        == [attempt.submission_id]
        == [f"troupe-{run.pk}-1"]
    )


def test_the_driver_is_told_where_and_with_what_to_report(
    run: Run, launcher: FakeLauncher, settings: Any
) -> None:
    run_submit_now(run.pk)
    launch = launcher.launches[0]
    assert launch.ingest_url == f"{settings.TROUPE_URL}/api/v1/runs/{run.pk}/events/"
    secret = RunFolder(launch.folder).token(launch.attempt)
    token = token_find(secret)
    assert token is not None
    assert secret not in f"{launch}{driver_command(launch, 'python')}{driver_variables(launch)}"
    assert (token.run_id, token.scopes) == (run.pk, ["ingest"])
    assert launch.resume_from is None
    assert "[policies.planner]" in (launch.folder / "config.toml").read_text()


def test_it_goes_on_from_the_last_checkpoint_that_is_there(run: Run, launcher: FakeLauncher) -> None:
    for iteration, removed in ((10, False), (20, False), (30, True)):
        Checkpoint.objects.create(
            run=run, attempt=1, cursor=1, iteration=iteration, path=f"checkpoints/iteration-{iteration:06d}",
            size=1, removed=removed, time=timezone.now(),
        )  # fmt: skip
    run_submit_now(run.pk)
    assert (
        launcher.launches[0].resume_from == launcher.launches[0].folder / "checkpoints" / "iteration-000020"
    )
    attempt = run.attempts.get()
    assert (attempt.resumed_from, attempt.resumed_iteration) == ("checkpoints/iteration-000020", 20)


@pytest.mark.parametrize(
    ("cpus", "gpus", "wanted", "there"),
    [(0.5, 0.0, "CPU cores", "0.5 CPU cores"), (64.0, 1.0, "1 GPU", "64 CPU cores")],
)
def test_what_never_fits_waits_with_a_remedy(
    run: Run, launcher: FakeLauncher, cpus: float, gpus: float, wanted: str, there: str
) -> None:
    run.config["policies"]["planner"]["devices"]["rollout_gpus"] = gpus
    run.save()
    launcher.devices = Capacity(cpus, 0.0, cpus, 0.0)
    assert not run_submit_now(run.pk)
    run.refresh_from_db()
    assert run.state == "queued" and wanted in run.reason and not run.attempts.exists()
    assert run.reason.endswith(f"the cluster has {there} and 0 GPUs in total.")
    assert run.remedy == "Add nodes, or lower policies.*.devices and resources.environment_cpus."


def test_what_others_hold_is_waited_for_and_then_had(run: Run, launcher: FakeLauncher) -> None:
    wants = demand(parse_config(run.config)).cpus
    launcher.devices = Capacity(wants * 1.5, 0.0, 0.0, 0.0)
    other = another(run, state="running")
    assert not run_submit_now(run.pk)
    run.refresh_from_db()
    assert (run.state, run.reason) == (
        "queued",
        f"Waiting for {wants:g} CPU cores; another run is using them.",
    )
    Run.objects.filter(pk=other.pk).update(state="finished")
    assert run_submit_now(run.pk)
    run.refresh_from_db()
    assert (run.state, run.reason) == ("starting", "")


def test_a_run_that_was_just_admitted_holds_its_devices(run: Run, launcher: FakeLauncher) -> None:
    """Between admission and the launcher's answer the state is still queued."""
    launcher.devices = Capacity(demand(parse_config(run.config)).cpus * 1.5, 0.0, 0.0, 0.0)
    Attempt.objects.create(run=another(run), number=1, submission_id="under way")
    assert not run_submit_now(run.pk)
    run.refresh_from_db()
    assert "another run is using them" in run.reason


def test_a_config_of_another_version_fails_only_its_own_run(run: Run, launcher: FakeLauncher) -> None:
    old = another(run, state="running")
    Run.objects.filter(pk=old.pk).update(config={"run": {"max_attempts": 3}, "from": "another version"})
    assert run_submit_now(run.pk)
    Run.objects.filter(pk=old.pk).update(state="queued")
    assert not run_submit_now(old.pk)
    old.refresh_from_db()
    assert old.state == "failed"
    assert "The config is rejected by this version" in old.reason


def test_launcher_out_of_reach_leaves_run_queued_with_the_reason(run: Run, launcher: FakeLauncher) -> None:
    launcher.reachable = False
    assert not run_submit_now(run.pk)
    run.refresh_from_db()
    assert (run.state, run.reason) == ("queued", "Waiting for Ray, which does not answer.")
    launcher.reachable = True
    assert run_submit_now(run.pk)
    run.refresh_from_db()
    assert (run.state, run.reason) == ("starting", "")


def test_no_launcher_at_all_is_a_reason_too(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def none(kind: str) -> FakeLauncher:
        raise LauncherFailure("RAY_ADDRESS is not set")

    monkeypatch.setattr("webapp.scheduling.submission.make_launcher", none)
    assert not run_submit_now(run.pk)
    assert Run.objects.get(pk=run.pk).reason == "RAY_ADDRESS is not set."


def test_a_refused_submission_is_tried_again_under_the_same_id(
    run: Run, launcher: FakeLauncher, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(launch: Launch) -> str:
        raise LauncherFailure("Ray says no")

    with monkeypatch.context() as broken:
        broken.setattr(launcher, "submit", refuse)
        for _ in range(3):
            assert not run_submit_now(run.pk)
    run.refresh_from_db()
    assert (run.state, run.reason) == ("queued", "Ray says no.")
    assert not ApiToken.objects.filter(run=run).exists(), "tokens that reached nobody are not kept"
    assert run_submit_now(run.pk)
    assert run.attempts.get().submission_id == launcher.launches[0].submission_id


def test_a_submission_whose_answer_got_lost_keeps_the_token_its_job_has(
    run: Run, launcher: FakeLauncher, monkeypatch: pytest.MonkeyPatch
) -> None:
    def submit_then_fail(launch: Launch) -> str:
        FakeLauncher.submit(launcher, launch)
        raise LauncherFailure("no answer")

    with monkeypatch.context() as broken:
        broken.setattr(launcher, "submit", submit_then_fail)
        assert not run_submit_now(run.pk)
    assert run_submit_now(run.pk)
    assert len(launcher.launches) == 1
    assert token_find(RunFolder(launcher.launches[0].folder).token(1)) is not None
    assert Run.objects.get(pk=run.pk).state == "starting"


def test_a_process_that_died_between_submission_and_its_note(run: Run, launcher: FakeLauncher) -> None:
    attempt = Attempt.objects.create(run=run, number=1, submission_id=f"troupe-{run.pk}-1")
    assert not run_submit_now(run.pk), "somebody may be at it"
    Attempt.objects.filter(pk=attempt.pk).update(created_at=timezone.now() - timedelta(seconds=31))
    assert run_submit_now(run.pk)
    assert [launch.attempt for launch in launcher.launches] == [1]


def test_a_folder_that_cannot_be_written_is_a_reason(run: Run, launcher: FakeLauncher, settings: Any) -> None:
    (settings.TROUPE_HOME / "runs").write_text("a file where a folder should be")
    assert not run_submit_now(run.pk)
    run.refresh_from_db()
    assert run.state == "queued"
    assert "cannot be written" in run.reason


def test_a_run_stopped_while_it_is_submitted_leaves_no_job_behind(
    run: Run, launcher: FakeLauncher, say: Say, monkeypatch: pytest.MonkeyPatch
) -> None:
    def submit_slowly(launch: Launch) -> str:
        run_stop(run.owner, run)
        return FakeLauncher.submit(launcher, launch)

    monkeypatch.setattr(launcher, "submit", submit_slowly)
    assert not run_submit_now(run.pk)
    assert launcher.stopped == [f"troupe-{run.pk}-1"]
    assert Run.objects.get(pk=run.pk).state == "stopped"
    assert say("running").command == "exit", "should its driver live on"
    assert Run.objects.get(pk=run.pk).state == "stopped"


def test_a_driver_that_ends_before_its_submission_is_stored_is_kept(
    run: Run, launcher: FakeLauncher, say: Say, monkeypatch: pytest.MonkeyPatch
) -> None:
    def submit_and_run(launch: Launch) -> str:
        answer = FakeLauncher.submit(launcher, launch)
        say("starting")
        say("running")
        say("finished", 120)
        return answer

    monkeypatch.setattr(launcher, "submit", submit_and_run)
    assert run_submit_now(run.pk)
    assert launcher.stopped == []
    assert Run.objects.get(pk=run.pk).state == "finished"
