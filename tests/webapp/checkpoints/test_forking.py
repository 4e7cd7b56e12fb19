"""Forks: what they start from, what they refuse, their form, and the tree they make."""

from typing import Any

import pytest
from django.core.exceptions import PermissionDenied
from django.http import Http404
from django.test import Client

from tests.webapp.api.conftest import caller
from tests.webapp.checkpoints.conftest import Make
from tests.webapp.pages.test_experiment import posted
from training_core.config.files import load_config
from training_core.errors import ConfigError
from webapp.accounts.models import AuditEntry, Membership, Project, User
from webapp.checkpoints.lineage import Kin, lineage_drawing
from webapp.checkpoints.services import checkpoint_get, checkpoint_named
from webapp.runs.models import Run, RunSource
from webapp.runs.states import TransitionRefused
from webapp.scheduling import submission
from webapp.scheduling.forking import run_fork
from workers.launchers.launcher import Capacity
from workers.launchers.registry import FakeLauncher
from workers.sizing.estimates import volume


def kin(name: str, at: int, now: int, *children: Kin) -> Kin:
    return Kin(Run(pk=name, name=name, iteration=now), at, children=list(children))


def test_forks_stand_below_and_lines_pass_between() -> None:
    grandchild = kin("c", 60, 100)
    drawing = lineage_drawing(kin("a", 0, 50, kin("b", 50, 80, grandchild), kin("d", 25, 40)))
    assert [lane.kin.run.pk for lane in drawing.lanes] == ["a", "b", "c", "d"]
    assert drawing.iterations == 100
    a, b, c, d = drawing.lanes
    assert (a.start, a.end) == (3.0, 50.0)
    assert (b.start, b.end, c.start, c.end) == (50.0, 78.2, 59.4, 97.0)
    assert (a.forks, b.forks, d.forks) == ([50.0, 26.5], [59.4], [])
    assert (b.passing, c.passing, d.passing) == ([26.5], [26.5], [])


def test_a_fork_that_has_not_begun_stands_where_it_was_forked() -> None:
    (_, fork) = lineage_drawing(kin("a", 0, 10, kin("b", 10, 0))).lanes
    assert fork.start == fork.end == 97.0


NEW = "/experiments/new/"


@pytest.fixture
def ada(run: Run, user: User) -> Client:
    """Logged in; the parent has 100 iterations."""
    tree = load_config("plan_path_duo", {"run.iterations": 100, "rollout.tasks": 4})
    Run.objects.filter(pk=run.pk).update(
        name="Parent", preset="plan_path_duo", config=tree.model_dump(mode="json")
    )
    client = Client()
    client.force_login(user)
    return client


def test_changes_are_counted_and_shown_against_the_parent(ada: Client, make: Make) -> None:
    fork = {"fork": str(make(80).pk)}
    html = ada.get(NEW, fork).content.decode()
    assert "<h1>Fork Parent at iteration 80</h1>" in html and "Parent unchanged" in html
    checked = ada.post("/experiments/check/", posted(ada, fork) | {"run.seed": "7"})
    html = checked.content.decode()
    assert "Ready to launch, with 1\n    change from Parent" in html
    assert "troupe fork" in html and "80 \\\n  run.seed=7" in html and "/checkpoints/80/fork/" in html
    assert checked["HX-Replace-Url"] == f"{NEW}?fork={fork['fork']}&run.seed=7"
    again = ada.get(checked["HX-Replace-Url"]).content.decode()
    assert "Ready to launch, with 1" in again and "parent: <span data-preset>0</span>" in again


def test_what_launch_refuses_is_an_error_of_the_form(ada: Client, make: Make, run: Run) -> None:
    form = posted(ada, {"fork": str(make(80).pk)})
    for path, value, message in (
        ("run.iterations", "70", "the checkpoint is of iteration 80"),
        ("policies.planner.model", "smollm2", "do not change the model"),
    ):
        html = ada.post("/experiments/check/", form | {path: value}).content.decode()
        assert "Ready to launch" not in html and message in html
        answer = ada.post(NEW, form | {path: value})
        assert answer.status_code == 400 and "Ready to launch" not in answer.content.decode()
    assert not Run.objects.filter(parent=run).exists()


def test_the_estimate_is_of_the_remaining_iterations(ada: Client, make: Make) -> None:
    form = posted(ada, {"fork": str(make(80).pk)}) | {"run.iterations": "90", "evaluation.every": "10"}
    html = ada.post("/experiments/estimate/", form).content.decode()
    assert "From iteration 80 to the end" in html
    config = load_config("plan_path_duo", {"run.iterations": 90, "evaluation.every": 10})
    rest, whole = volume(config, 80), volume(config)
    assert rest.tokens_total == 10 * whole.tokens
    assert (rest.evaluations, whole.evaluations) == (2, 10), "of the checkpoint and of iteration 90"


def test_a_fork_of_the_last_iteration_gets_as_many_again(ada: Client, make: Make, run: Run) -> None:
    form = posted(ada, {"fork": str(make(100).pk)})
    assert form["run.iterations"] == "200"
    answer = ada.post(NEW, form)
    fork = Run.objects.get(parent=run)
    assert answer["Location"] == f"/runs/{fork.pk}/" and fork.config["run"]["iterations"] == 200
    assert fork.config["rollout"]["tasks"] == 4 and fork.iteration == 100


def test_a_template_of_a_fork_keeps_all_changes_of_the_preset(ada: Client, make: Make) -> None:
    form = posted(ada, {"fork": str(make(80).pk)}) | {"template_name": "small", "run.seed": "3"}
    ada.post("/experiments/templates/save/", form)
    html = ada.get(NEW).content.decode()
    assert "plan_path_duo, 2 changes" in html, "rollout.tasks of the parent, and the seed"


def test_a_fork_remembers_where_it_comes_from(run: Run, user: User, make: Make) -> None:
    fork = run_fork(user, make(20), {"run.seed": 9}, tags=["try"])
    assert (fork.parent, fork.parent_checkpoint) == (run, "checkpoints/iteration-000020")
    assert (fork.parent_iteration, fork.iteration) == (20, 20)
    assert (fork.config["run"]["seed"], fork.tags, fork.state) == (9, ["try"], "queued")
    assert fork.name == f"{run.name} fork"
    assert fork.family not in ("", run_fork(user, make(40)).family, run.family)
    note = AuditEntry.objects.filter(act="checkpoint.fork").earliest("pk")
    assert (note.target, note.details) == (f"{run.pk}/checkpoints/iteration-000020", {"run": fork.pk})


def test_the_driver_is_told_of_the_checkpoint(
    run: Run, user: User, make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    launcher = FakeLauncher(devices=Capacity(64.0, 0.0, 64.0, 0.0))
    monkeypatch.setattr(submission, "make_launcher", lambda kind: launcher)
    origin = make(20)
    fork = run_fork(user, origin)
    assert submission.run_submit_now(fork.pk)
    [launch] = [each for each in launcher.launches if each.run == fork.pk]
    assert launch.resume_from is None
    assert launch.fork_from is not None
    assert (launch.fork_from / "state.json").is_file()
    assert f"{run.pk}/{origin.path}" in str(launch.fork_from)


@pytest.mark.parametrize(
    ("edits", "where"),
    [
        ({"run.iterations": 20}, "run.iterations"),
        ({"policies.planner.model": "other/model"}, "policies.planner.model"),
        ({"policies.judge": {}, "team.roles.planner.policy": "judge"}, "policies.judge"),
        ({"run.colour": "red"}, "run.colour"),
    ],
)
def test_what_does_not_fit_is_refused_at_its_field(
    run: Run, user: User, make: Make, edits: dict[str, Any], where: str
) -> None:
    with pytest.raises(ConfigError) as refused:
        run_fork(user, make(20), edits)
    assert where in refused.value.fields
    assert Run.objects.count() == 1


def test_only_editors_fork_and_only_what_is_there(run: Run, user: User, stranger: User, make: Make) -> None:
    there, gone = make(20), make(10, removed=True)
    with pytest.raises(TransitionRefused, match="was removed"):
        run_fork(user, gone)
    Membership.objects.create(user=stranger, project=run.project, level=Membership.Level.VIEWER)
    with pytest.raises(PermissionDenied):
        run_fork(stranger, there)
    Run.objects.filter(pk=run.pk).update(source=RunSource.CLIENT)
    with pytest.raises(TransitionRefused, match="custom program"):
        run_fork(user, there)


def test_checkpoints_by_name(run: Run, user: User, stranger: User, make: Make) -> None:
    first, second = make(20, best=True), make(40)
    make(60, removed=True)
    named = {
        name: checkpoint_named(user, run.pk, name) for name in ("last", "best", "20", "iteration-000040")
    }
    assert named == {"last": second, "best": first, "20": first, "iteration-000040": second}
    with pytest.raises(ConfigError, match="is not a checkpoint"):
        checkpoint_named(user, run.pk, "../x")
    for wrong in ("30", "9" * 12):
        with pytest.raises(Http404):
            checkpoint_named(user, run.pk, wrong)
    with pytest.raises(Http404):
        checkpoint_get(stranger, first.pk)


def test_the_line_shows_only_what_its_reader_may_see(run: Run, user: User, make: Make) -> None:
    fork = run_fork(user, make(20))
    Run.objects.filter(pk=fork.pk).update(project=Project.objects.create(slug="far", name="Far"))
    assert caller(user, "read")(f"runs/{run.pk}/lineage/").json()["forks"] == []
