"""Runs of a sweep over seeds as one job: who is grouped, what they hold, how one of them ends."""

import json
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from tests.webapp.scheduling.conftest import silent_for
from webapp.accounts.models import ApiToken, Project, User
from webapp.accounts.tokens import token_find
from webapp.experiments.services import sweep_create
from webapp.experiments.sweeps import plan_make
from webapp.ingest.services import IngestAnswer, batch_store
from webapp.quotas.services import quota_set, usage_read
from webapp.reconciliation.services import runs_reconcile_now
from webapp.runs.models import Attempt, Run
from webapp.scheduling.seed_groups import MOST
from webapp.scheduling.services import run_end_now, run_resume, run_stop
from webapp.scheduling.submission import run_submit_now
from workers.launchers.launcher import AnyLaunch, Capacity, JobState, LauncherFailure
from workers.launchers.registry import FakeLauncher
from workers.storage.folders import RunFolder

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("long_up")]
SMALL = {"run.iterations": 4, "rollout.environments": 4}


def cores(launcher: FakeLauncher, count: float) -> None:
    launcher.devices = Capacity(count, 0.0, count, 0.0)


@pytest.fixture(autouse=True)
def one_process(launcher: FakeLauncher) -> None:
    """Devices for one process."""
    cores(launcher, 1)


@pytest.fixture
def made(user: User, project: Project) -> Any:
    """Launches a sweep and returns its runs in order."""

    def make(
        seeds: list[int], axes: dict[str, list[Any]] | None = None, preset: str = "spread_mappo", **more: Any
    ) -> list[Run]:
        overrides = SMALL if preset == "spread_mappo" else {"run.iterations": 4}
        plan = plan_make(preset, overrides, {**(axes or {}), "run.seed": seeds}, **more)
        return list(sweep_create(user, project, plan).runs.order_by("created_at"))

    return make


@pytest.fixture
def group(made: Any, launcher: FakeLauncher) -> list[Run]:
    """Three seeds in one process, at work."""
    runs = made([0, 1, 2])
    assert run_submit_now(runs[0].pk)
    cores(launcher, 64)
    launcher.set(job(runs), JobState.RUNNING)
    for run in runs:
        say(run, "starting", "running")
    return [now(run) for run in runs]


def job(runs: list[Run]) -> str:
    return f"troupe-{runs[0].pk}-1"


def now(run: Run) -> Run:
    return Run.objects.select_related("project", "owner", "sweep").get(pk=run.pk)


def states(runs: list[Run]) -> list[str]:
    return [now(run).state for run in runs]


SEQS: dict[tuple[str, int], int] = {}


def say(run: Run, *words: str, attempt: int = 1, **fields: Any) -> IngestAnswer:
    """Status events of a member's driver."""
    for word in words:
        seq = SEQS[run.pk, attempt] = SEQS.get((run.pk, attempt), 0) + 1
        event = {
            "run": run.pk, "attempt": attempt, "producer": f"p{attempt}", "seq": seq, "time": 1000.0,
            "type": "status", "state": word, "iteration": 1,
        }  # fmt: skip
        answer = batch_store(run.pk, json.dumps(event | fields).encode(), "")
    return answer


def groups(launcher: FakeLauncher) -> list[list[str]]:
    return [[member.run for member in launch.members] for launch in launcher.seed_groups]


def ids(runs: list[Run]) -> list[str]:
    return [run.pk for run in runs]


def test_seeds_of_a_sweep_are_one_job(made: Any, launcher: FakeLauncher) -> None:
    runs = made([0, 1, 2])
    assert run_submit_now(runs[0].pk)
    assert not run_submit_now(runs[1].pk) and not run_submit_now(runs[2].pk)
    assert groups(launcher) == [ids(runs)] and not launcher.launches
    (launch,) = launcher.seed_groups
    assert launch.submission_id == job(runs) and launch.cpus == 1.0
    for member in launch.members:
        token = token_find(RunFolder(member.folder).token(member.attempt))
        assert token is not None and token.run_id == member.run
        assert member.ingest_url.endswith(f"/api/v1/runs/{member.run}/events/")
        assert (member.folder / "config.toml").exists() and member.resume_from is None
    assert states(runs) == ["starting"] * 3
    attempts = Attempt.objects.filter(run__in=runs)
    assert {one.job_id for one in attempts} == {launch.submission_id}
    assert {(one.number, one.state, one.shared_by) for one in attempts} == {(1, "live", 3)}


def test_points_of_a_sweep_have_a_process_each(made: Any, launcher: FakeLauncher) -> None:
    cores(launcher, 2)
    runs = made([0, 1], {"algorithm.entropy_coefficient": [0.01, 0.02]})
    for run in runs:
        run_submit_now(run.pk)
    assert groups(launcher) == [ids(runs[:2]), ids(runs[2:])]


@pytest.mark.parametrize(
    ("axes", "preset"),
    [({}, "plan_path_duo"), ({"policies.*.network.share_parameters": [False]}, "spread_mappo")],
)
def test_configs_that_need_a_process_each_get_one(
    axes: Any, preset: str, made: Any, launcher: FakeLauncher
) -> None:
    cores(launcher, 64)
    runs = made([0, 1], axes, preset)
    for run in runs:
        assert run_submit_now(run.pk)
    assert not launcher.seed_groups and [launch.run for launch in launcher.launches] == ids(runs)
    assert {(one.shared_job, one.shared_by) for one in Attempt.objects.all()} == {("", 1)}


def test_a_sweep_can_ask_for_separate_processes(made: Any, launcher: FakeLauncher) -> None:
    cores(launcher, 64)
    runs = made([0, 1], separate_processes=True)
    for run in runs:
        assert run_submit_now(run.pk)
    assert not launcher.seed_groups and len(launcher.launches) == 2


@pytest.mark.parametrize(
    "change", [{"priority": -3}, {"state": "stopped"}, {"sweep": None}, {"edits": {"run.iterations": 5}}]
)
def test_only_new_queued_runs_alike_join(change: dict[str, Any], made: Any, launcher: FakeLauncher) -> None:
    runs = made([0, 1, 2])
    Run.objects.filter(pk=runs[2].pk).update(**change)
    assert run_submit_now(runs[0].pk)
    assert groups(launcher) == [ids(runs[:2])]


def test_a_group_has_a_limit(made: Any, launcher: FakeLauncher) -> None:
    runs = made(list(range(MOST + 2)))
    for count in (1, 2):
        cores(launcher, count)
        for run in runs:
            run_submit_now(run.pk)
    assert groups(launcher) == [ids(runs[:MOST]), ids(runs[MOST:])]


def test_seeds_are_divided_among_the_free_cores(made: Any, launcher: FakeLauncher) -> None:
    cores(launcher, 3)
    other, *runs = made([9]) + made(list(range(5)))
    for run in (other, *runs):
        run_submit_now(run.pk)
    assert [launch.run for launch in launcher.launches] == [other.pk]
    assert groups(launcher) == [ids(runs[:3]), ids(runs[3:])]


def test_on_idle_cores_every_seed_has_a_process(made: Any, launcher: FakeLauncher) -> None:
    cores(launcher, 8)
    runs = made([0, 1, 2])
    for run in runs:
        run_submit_now(run.pk)
    assert not launcher.seed_groups and [launch.run for launch in launcher.launches] == ids(runs)


def test_a_group_holds_the_devices_of_one_run(
    made: Any, launcher: FakeLauncher, user: User, project: Project
) -> None:
    cores(launcher, 64)
    quota_set(user, project, {"cpus": 1.0})
    runs, later = made([0, 1, 2]), made([7])
    assert run_submit_now(runs[0].pk)
    used = usage_read(project)
    assert (used.runs, used.cpus) == (3, 1.0)
    assert not run_submit_now(later[0].pk)
    for run in runs[:2]:
        say(run, "starting", "running", "finished")
    assert usage_read(project).cpus == 1.0, "the last one holds the process"
    assert not run_submit_now(later[0].pk)
    say(runs[2], "starting", "running", "finished")
    assert run_submit_now(later[0].pk)


def test_a_quota_of_runs_counts_every_member(
    made: Any, launcher: FakeLauncher, user: User, project: Project
) -> None:
    quota_set(user, project, {"runs": 2})
    cores(launcher, 2)
    runs = made([0, 1, 2])
    for run in runs:
        run_submit_now(run.pk)
    assert groups(launcher) == [ids(runs[:2])] and states(runs) == ["starting", "starting", "queued"]
    assert "quota of 2 concurrent runs" in now(runs[2]).reason
    say(runs[0], "starting", "running", "finished")
    assert run_submit_now(runs[2].pk), "alone"
    assert [launch.run for launch in launcher.launches] == [runs[2].pk]


def test_a_refused_group_is_submitted_again_as_one(
    made: Any, launcher: FakeLauncher, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = made([0, 1, 2])

    def refuse(launch: AnyLaunch) -> str:
        raise LauncherFailure("Ray says no")

    with monkeypatch.context() as broken:
        broken.setattr(launcher, "submit", refuse)
        for run in runs:
            assert not run_submit_now(run.pk)
    assert [now(run).reason for run in runs] == ["Ray says no."] * 3
    assert not ApiToken.objects.exists(), "tokens that reached nobody are not kept"
    run_stop(runs[0].owner, now(runs[0]))
    assert not run_submit_now(runs[2].pk), "the first of them does it"
    assert run_submit_now(runs[1].pk)
    assert groups(launcher) == [ids(runs[1:])] and launcher.seed_groups[0].submission_id == job(runs)
    assert states(runs) == ["stopped", "starting", "starting"]


def test_an_interrupted_submission_of_a_group_is_repeated(
    made: Any, launcher: FakeLauncher, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = made([0, 1, 2])

    def die(launch: AnyLaunch) -> str:
        raise KeyboardInterrupt

    with monkeypatch.context() as broken, pytest.raises(KeyboardInterrupt):
        broken.setattr(launcher, "submit", die)
        run_submit_now(runs[0].pk)
    assert not any(run_submit_now(run.pk) for run in runs), "another task may do it"
    Attempt.objects.update(created_at=timezone.now() - timedelta(seconds=31))
    assert [run_submit_now(run.pk) for run in reversed(runs)] == [False, False, True]
    assert groups(launcher) == [ids(runs)] and states(runs) == ["starting"] * 3


def test_a_member_stopped_during_submission_ends_alone(
    made: Any, launcher: FakeLauncher, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = made([0, 1])

    def submit_slowly(launch: AnyLaunch) -> str:
        run_stop(runs[0].owner, now(runs[0]))
        return FakeLauncher.submit(launcher, launch)

    monkeypatch.setattr(launcher, "submit", submit_slowly)
    assert run_submit_now(runs[0].pk)
    assert launcher.stopped == [] and states(runs) == ["stopped", "starting"]
    assert say(runs[0], "running").command == "exit"
    assert states(runs) == ["stopped", "starting"]


def test_one_member_stops_and_the_others_continue(group: list[Run], launcher: FakeLauncher) -> None:
    run_stop(group[0].owner, group[0])
    assert [say(run, "running").command for run in group] == ["stop", None, None]
    say(group[0], "stopped")
    Attempt.objects.filter(run=group[0]).update(ended_at=timezone.now() - timedelta(seconds=31))
    runs_reconcile_now()
    assert launcher.stopped == [], "the job of an ended attempt trains the others"
    assert states(group) == ["stopped", "running", "running"]
    run_resume(group[0].owner, now(group[0]))
    assert run_submit_now(group[0].pk)
    assert [(launch.run, launch.attempt) for launch in launcher.launches] == [(group[0].pk, 2)], "alone"
    for run in group[1:]:
        say(run, "finished")
    Attempt.objects.filter(run__in=group, number=1).update(ended_at=timezone.now() - timedelta(seconds=31))
    runs_reconcile_now()
    assert launcher.stopped == [job(group)], "a process that hangs after the last one is ended"


def test_ending_one_member_now_leaves_the_process(group: list[Run], launcher: FakeLauncher) -> None:
    run_stop(group[1].owner, group[1])
    run_end_now(group[1].owner, now(group[1]))
    assert now(group[1]).reason.startswith("Ending now: its process trains other runs")
    runs_reconcile_now()
    assert "or is given up in 60 s" in now(group[1]).reason
    Run.objects.filter(pk=group[1].pk).update(end_requested_at=timezone.now() - timedelta(seconds=61))
    runs_reconcile_now()
    assert launcher.stopped == [] and states(group) == ["running", "stopped", "running"]
    assert "the work after the last checkpoint is lost" in now(group[1]).reason
    assert [say(run, "running").command for run in group] == [None, "exit", None]


def test_the_last_member_is_ended_with_its_process(group: list[Run], launcher: FakeLauncher) -> None:
    for run in group[:2]:
        say(run, "finished")
    run_stop(group[2].owner, group[2])
    run_end_now(group[2].owner, now(group[2]))
    runs_reconcile_now()
    assert launcher.stopped == [job(group)]
    runs_reconcile_now()
    assert states(group) == ["finished", "finished", "stopped"]


def test_a_silent_member_is_not_ended_by_force(group: list[Run], launcher: FakeLauncher) -> None:
    run_stop(group[0].owner, group[0])
    Run.objects.filter(pk=group[0].pk).update(stop_requested_at=timezone.now() - timedelta(seconds=40))
    silent_for(Attempt.objects.get(run=group[0]), 40)
    runs_reconcile_now()
    assert launcher.stopped == [] and states(group)[0] == "stopping"
    assert now(group[0]).remedy == "Press End now to end this run alone."


def test_a_member_stopped_before_the_process_starts(made: Any, launcher: FakeLauncher) -> None:
    runs = made([0, 1])
    run_submit_now(runs[0].pk)
    run_stop(runs[0].owner, now(runs[0]))
    Run.objects.filter(pk=runs[0].pk).update(stop_requested_at=timezone.now() - timedelta(seconds=40))
    Attempt.objects.update(created_at=timezone.now() - timedelta(seconds=40))
    runs_reconcile_now()
    assert launcher.stopped == [] and states(runs) == ["stopped", "starting"]
    assert now(runs[0]).reason == "Stopped before it started."
    assert say(runs[0], "running").command == "exit"


def test_members_of_a_dead_process_continue_alone(group: list[Run], launcher: FakeLauncher) -> None:
    say(group[0], "finished")
    run_stop(group[1].owner, group[1])
    launcher.log = "a warning\nseed 0  failed: another run\nseed 2  iteration 1\nterminate called"
    launcher.set(job(group), JobState.FAILED, "the driver was killed")
    runs_reconcile_now()
    assert states(group) == ["finished", "stopped", "starting"]
    assert [(launch.run, launch.attempt) for launch in launcher.launches] == [(group[2].pk, 2)]
    cause = "The process that trained this run with 2 other seeds ended without a report (job failed): The driver was killed."
    assert group[2].attempts.get(number=1).reason == cause
    assert now(group[1]).reason.startswith(cause.rstrip(".") + "; the work after the last checkpoint is lost")
    (line,) = group[2].log_lines.filter(source="job output")
    assert line.message == "a warning\niteration 1\nterminate called"


def test_a_failure_that_one_seed_printed_is_its_own(group: list[Run], launcher: FakeLauncher) -> None:
    launcher.log = "seed 1  failed: the disk is full"
    launcher.set(job(group), JobState.FAILED)
    runs_reconcile_now()
    assert states(group) == ["starting", "failed", "starting"]
    assert now(group[1]).reason == "The disk is full."
