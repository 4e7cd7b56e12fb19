"""The form of a fork: it checks, estimates and describes the fork, not a new run."""

import pytest
from django.test import Client

from tests.webapp.checkpoints.conftest import Make
from tests.webapp.pages.test_experiment import posted
from training_core.config.files import load_config
from webapp.accounts.models import User
from webapp.runs.models import Run
from workers.sizing.estimates import volume

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
