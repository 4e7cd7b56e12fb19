"""People's side of a run: create, stop, pause, resume, from every state."""

import pytest
from django.core.exceptions import PermissionDenied

from training_core.config.files import load_config, read_preset
from training_core.errors import ConfigError
from webapp.accounts.models import Membership, Project, User
from webapp.runs.models import Attempt, Run, RunState
from webapp.runs.states import TransitionRefused
from webapp.scheduling.forking import run_resume_edited
from webapp.scheduling.services import run_create, run_pause, run_resume, run_stop
from workers.launchers.launcher import Capacity
from workers.launchers.registry import FakeLauncher
from workers.telemetry.faults import fault_of


def create(user: User, project: Project, preset: str = "plan_path_duo", **fields: object) -> Run:
    return run_create(user, project, read_preset("plan_path_duo"), preset, **fields)  # type: ignore[arg-type]


@pytest.fixture
def viewer(project: Project, stranger: User) -> User:
    """Somebody who may read the project."""
    Membership.objects.create(project=project, user=stranger, level=Membership.Level.VIEWER)
    return stranger


def test_a_launch_stores_the_whole_config_and_enqueues_the_submission(
    user: User, project: Project, sent: list[str], django_capture_on_commit_callbacks: object
) -> None:
    with django_capture_on_commit_callbacks(execute=True):  # type: ignore[operator]
        run = create(
            user, project, overrides={"run.seed": 7, "run.tags": ["b"]}, name=" my run ", tags=["a", "b"]
        )
        assert sent == []
    assert sent == [run.pk]
    run.refresh_from_db()
    assert (run.state, run.name, run.tags, run.owner) == ("queued", " my run ", ["a", "b"], user)
    whole = load_config("plan_path_duo", {"run.seed": 7, "run.tags": ["b"]}).model_dump(mode="json")
    assert run.config == whole
    assert run.iterations == whole["run"]["iterations"]


GPU = {"policies.planner.devices.rollout_gpus": 1.0}


@pytest.mark.parametrize(
    ("bundled", "gpus", "refused"), [(True, 0.0, True), (True, 1.0, False), (False, 0.0, False)]
)
def test_gpus_that_a_fixed_cluster_lacks_are_refused_at_launch(
    user: User, project: Project, monkeypatch: pytest.MonkeyPatch, bundled: bool, gpus: float, refused: bool
) -> None:
    """Another cluster may get more machines: there the run waits."""
    launcher = FakeLauncher(devices=Capacity(4.0, gpus, 4.0, gpus))
    monkeypatch.setattr("webapp.scheduling.services.make_launcher", lambda kind: launcher)
    monkeypatch.setattr("webapp.scheduling.services.present_cluster", lambda: "an id" if bundled else "")
    if not refused:
        assert create(user, project, overrides=GPU).state == "queued"
        return
    with pytest.raises(ConfigError) as caught:
        create(user, project, overrides=GPU)
    fault = fault_of(caught.value)
    assert fault.cause.endswith("1 GPU is requested, but this server's machine has no CUDA device.")
    assert fault.remedy.startswith("Set it to 0") and not Run.objects.exists()
    ended = create(user, project)
    run_stop(user, ended)
    with pytest.raises(ConfigError, match="no CUDA device"):
        run_resume_edited(user, ended, GPU)


MANY = {"resources.environment_cpus": 0.5, "resources.environment_workers": 4}


@pytest.mark.parametrize("bundled", [True, False])
def test_cores_that_a_cluster_lacks_are_told_at_launch(
    user: User, project: Project, monkeypatch: pytest.MonkeyPatch, bundled: bool
) -> None:
    """Two policies of 0.5 cores, four workers of 0.5, the coordinator with 0.1: 3.1. A fixed cluster of 2 refuses, with values
    that fit: 1.9 / 3 of each. Another one may get more nodes: there the launch says what it waits for.
    """
    launcher = FakeLauncher(devices=Capacity(2.0, 0.0, 2.0, 0.0))
    monkeypatch.setattr("webapp.scheduling.services.make_launcher", lambda kind: launcher)
    monkeypatch.setattr("webapp.scheduling.services.present_cluster", lambda: "an id" if bundled else "")
    if not bundled:
        run = create(user, project, overrides=MANY)
        assert run.reason.startswith("Waiting for 3.1 CPU cores; the cluster has 2 CPU cores")
        assert run.remedy.startswith("Add nodes")
        return
    with pytest.raises(ConfigError) as caught:
        create(user, project, overrides=MANY)
    assert "needs 3.1 CPU cores in total; this server's machine has 2" in str(caught.value)
    fits = {path: float(str(text).split(" = ")[1].rstrip(".")) for path, text in caught.value.fields.items()}
    assert fits == dict.fromkeys(
        [
            "policies.executor.devices.rollout_cpus",
            "policies.planner.devices.rollout_cpus",
            "resources.environment_cpus",
        ],
        0.31,
    )
    assert create(user, project, overrides=MANY | fits).reason == ""


@pytest.mark.parametrize(
    ("overrides", "path"),
    [
        ({"run.seed": "many"}, "run.seed"),
        ({"run.no_such": 1}, "run.no_such"),
        ({"rollout.group_size": 1}, "rollout.group_size"),
        ({"team.roles.planner.policy": "nobody"}, "team.roles.planner.policy"),
        ({"run.seed.x": 1}, "run.seed"),
        ({"algorithm.kl_coefficient": float("inf")}, "algorithm.kl_coefficient"),
        ({"algorithm.kl_coefficient": float("nan")}, "algorithm.kl_coefficient"),
        ({"run.description": "a\0b"}, "run.description"),
        ({"run.tags": ["fine", "a\0b"]}, "run.tags.1"),
    ],
)
def test_a_bad_config_is_told_at_its_field_and_nothing_is_kept(
    user: User, project: Project, overrides: dict[str, object], path: str
) -> None:
    with pytest.raises(ConfigError) as told:
        create(user, project, overrides=overrides)
    assert list(told.value.fields) == [path]
    assert not Run.objects.exists()


def test_who_may_not_edit_may_not_launch_nor_act(viewer: User, project: Project, run: Run) -> None:
    with pytest.raises(PermissionDenied, match="editor"):
        create(viewer, project)
    for act in (run_stop, run_pause, run_resume):
        with pytest.raises(PermissionDenied, match="editor"):
            act(viewer, run)
    assert Run.objects.get().state == "queued"


@pytest.mark.parametrize(
    ("act", "before", "after"),
    [
        (run_stop, "queued", "stopped"), (run_stop, "starting", "stopping"), (run_stop, "running", "stopping"),
        (run_stop, "stopping", "stopping"), (run_stop, "paused", None), (run_stop, "finished", None),
        (run_stop, "stopped", None), (run_stop, "failed", None), (run_stop, "draft", None),
        (run_pause, "queued", "paused"), (run_pause, "starting", "stopping"), (run_pause, "running", "stopping"),
        (run_pause, "stopping", "stopping"), (run_pause, "paused", None), (run_pause, "finished", None),
        (run_pause, "stopped", None), (run_pause, "failed", None), (run_pause, "draft", None),
        (run_resume, "queued", None), (run_resume, "starting", "queued!"), (run_resume, "running", "queued!"),
        (run_resume, "stopping", None), (run_resume, "paused", "queued"), (run_resume, "finished", None),
        (run_resume, "stopped", "queued"), (run_resume, "failed", "queued"),
    ],
)  # fmt: skip
def test_acts_from_every_state(user: User, run: Run, act: object, before: str, after: str | None) -> None:
    """`queued!`: allowed to the machinery after a loss, never to people while an attempt lives."""
    Run.objects.filter(pk=run.pk).update(state=before, reason="before")
    if after in (None, "queued!"):
        with pytest.raises(TransitionRefused, match=f"a run that is {before} cannot be"):
            act(user, run)  # type: ignore[operator]
        assert Run.objects.get().state == before
    else:
        assert act(user, run).state == after  # type: ignore[operator]
        assert Run.objects.get().state == after


def test_stopping_a_queued_run_gives_up_an_attempt_that_was_being_submitted(user: User, run: Run) -> None:
    attempt = Attempt.objects.create(run=run, number=1, submission_id="s")
    stopped = run_stop(user, run)
    attempt.refresh_from_db()
    assert (attempt.state, attempt.ended_as) == ("ended", "stopped")
    assert stopped.ended_at
    assert stopped.reason


def test_a_stop_outweighs_a_pause_but_not_the_other_way_round(user: User, run: Run) -> None:
    Run.objects.filter(pk=run.pk).update(state=RunState.RUNNING)
    assert run_pause(user, run).stop_requested == "pause"
    assert run_stop(user, run).stop_requested == "stop"
    assert run_pause(user, run).stop_requested == "stop"


def test_resuming_wakes_the_worker_and_forgets_the_end(
    user: User, run: Run, sent: list[str], django_capture_on_commit_callbacks: object
) -> None:
    Run.objects.filter(pk=run.pk).update(state="failed", reason="broken", stop_requested="stop")
    with django_capture_on_commit_callbacks(execute=True):  # type: ignore[operator]
        run = run_resume(user, run)
    assert (run.reason, run.stop_requested, run.ended_at, sent) == ("", "", None, [run.pk])
