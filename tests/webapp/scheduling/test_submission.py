"""From queued to submitted, with a launcher that runs nothing."""

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from tests.webapp.scheduling.conftest import Say
from webapp.accounts.models import ApiToken
from webapp.accounts.tokens import token_find
from webapp.checkpoints.models import Checkpoint
from webapp.runs.models import Attempt, Run
from webapp.scheduling.services import run_stop
from webapp.scheduling.submission import run_submit_now
from workers.launchers.launcher import Capacity, JobState, Launch, LauncherFailure
from workers.launchers.registry import FakeLauncher


def another(run: Run, **fields: Any) -> Run:
    return Run.objects.create(
        project=run.project,
        owner=run.owner,
        name="other",
        config=run.config,
        iterations=run.iterations,
        **fields,
    )


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
    token = token_find(launch.ingest_token)
    assert token is not None
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


def test_what_never_fits_waits_with_a_remedy(run: Run, launcher: FakeLauncher) -> None:
    launcher.devices = Capacity(0.5, 0.0, 0.5, 0.0)
    assert not run_submit_now(run.pk)
    run.refresh_from_db()
    assert run.state == "queued"
    assert "the cluster has 0.5 CPU cores and 0 GPUs in total" in run.reason
    assert run.remedy.startswith("Add nodes, or lower")
    assert not run.attempts.exists()


def test_a_cluster_without_gpus_is_stated_with_a_remedy(run: Run, launcher: FakeLauncher) -> None:
    run.config["policies"]["planner"]["devices"]["rollout_gpus"] = 1.0
    run.save()
    launcher.devices = Capacity(64.0, 0.0, 64.0, 0.0)
    assert not run_submit_now(run.pk)
    run.refresh_from_db()
    assert run.reason.endswith("the cluster has 64 CPU cores and 0 GPUs in total.")
    assert "1 GPU" in run.reason
    assert run.remedy == "Add nodes, or lower policies.*.devices and resources.environment_cpus."
    assert not run.attempts.exists()


def test_what_others_hold_is_waited_for_and_then_had(run: Run, launcher: FakeLauncher) -> None:
    wants = _wants(launcher, run)
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
    launcher.devices = Capacity(_wants(launcher, run) * 1.5, 0.0, 0.0, 0.0)
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


def test_a_launcher_out_of_reach_leaves_the_run_queued_with_the_reason(
    run: Run, launcher: FakeLauncher
) -> None:
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
    assert token_find(launcher.launches[0].ingest_token) is not None
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


def _wants(launcher: FakeLauncher, run: Run) -> float:
    from training_core.config.files import parse_config
    from workers.sizing.placement import demand

    assert launcher.status("x").state is JobState.MISSING
    return demand(parse_config(run.config)).cpus
