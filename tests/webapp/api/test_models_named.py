"""What a config from the API may name on the server: models and checkpoints of runs that the caller may see, and no other place."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.webapp.api.conftest import caller
from webapp.accounts.models import Membership, Project, User
from webapp.experiments.estimates import appraise
from webapp.jobs.models import Job
from webapp.runs.configs import parse_permitted_for
from webapp.runs.models import Run
from webapp.scheduling import submission
from workers.launchers.launcher import Capacity
from workers.launchers.registry import FakeLauncher

pytestmark = pytest.mark.django_db(transaction=True)
MODEL = "policies.planner.model"
SHAPE = {
    "num_hidden_layers": 1, "hidden_size": 8, "num_attention_heads": 2, "intermediate_size": 8, "vocab_size": 20,
    "max_position_embeddings": 64, "model_type": "llama",
}  # fmt: skip


@pytest.fixture(autouse=True)
def home(settings: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    settings.TROUPE_HOME = tmp_path / "home"
    monkeypatch.setattr("webapp.scheduling.services.submit_soon", lambda run: None)
    monkeypatch.setattr("webapp.jobs.starting._soon", lambda job: None)
    (tmp_path / "home").mkdir()
    return tmp_path / "home"


@pytest.fixture
def outsider(stranger: User) -> User:
    """Owner of a project of their own."""
    project = Project.objects.create(slug="other", name="Other")
    Membership.objects.create(project=project, user=stranger, level=Membership.Level.OWNER)
    return stranger


@pytest.fixture
def policy(run: Run, home: Path) -> str:
    """A policy in a checkpoint of `run`, from TROUPE_HOME on."""
    path = f"runs/{run.pk}/checkpoints/iteration-000010/planner"
    (home / path).mkdir(parents=True)
    (home / path / "config.json").write_text(json.dumps(SHAPE))
    return path


Ask = Callable[[Any, dict[str, Any]], Any]
WAYS: dict[str, Ask] = {
    "run": lambda call, over: call("runs/", {"preset": "plan_path_duo", "overrides": over}),
    "dry run": lambda call, over: call(
        "jobs/", {"kind": "dry_run", "preset": "plan_path_duo", "overrides": over}
    ),
    "estimate": lambda call, over: call("estimate/", {"preset": "plan_path_duo", "overrides": over}),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("absolute", [True, False])
def test_weights_of_other_projects_cannot_be_named(
    way: str, absolute: bool, outsider: User, user: User, policy: str, home: Path
) -> None:
    named = str(home / policy) if absolute else policy
    missing = named.replace(policy.split("/")[1], "zzzzzzzz")
    call = caller(outsider, "launch")
    refused = [WAYS[way](call, {MODEL: each}) for each in (named, missing)]
    assert [each.status_code for each in refused] == [400, 400]
    said = [each.json()["errors"][MODEL] for each in refused]
    assert said[0] == said[1], "nobody learns whether there is such a run"
    assert "of a run that you may see" in said[0] and str(home) not in said[0]
    assert WAYS[way](caller(user, "launch"), {MODEL: named}).status_code < 300
    assert not Run.objects.filter(owner=outsider).exists() and not Job.objects.filter(owner=outsider).exists()


@pytest.mark.parametrize("way", WAYS)
def test_there_is_no_oracle_of_folders(way: str, outsider: User) -> None:
    call = caller(outsider, "launch")
    said = {
        WAYS[way](call, {MODEL: place}).json()["errors"][MODEL]
        for place in ("/etc", "/no/such", "tests/webapp/api")
    }
    assert len(said) == 1


def test_a_person_who_left_the_project_cannot_run_its_weights(
    outsider: User, run: Run, policy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    seat = Membership.objects.create(user=outsider, project=run.project, level=Membership.Level.VIEWER)
    body = {"preset": "plan_path_duo", "overrides": {MODEL: policy}, "project": "other"}
    made = caller(outsider, "launch")("runs/", body)
    assert made.status_code == 201
    seat.delete()
    launcher = FakeLauncher(devices=Capacity(64.0, 0.0, 64.0, 0.0))
    monkeypatch.setattr(submission, "make_launcher", lambda kind: launcher)
    assert not submission.run_submit_now(made.json()["id"])
    ended = Run.objects.get(pk=made.json()["id"])
    assert (ended.state, launcher.launches) == ("failed", [])
    assert "of a run that you may see" in f"{ended.reason} {ended.remedy}"


def test_resume_from_names_checkpoints_of_visible_runs(outsider: User, user: User, run: Run) -> None:
    body = {
        "preset": "spread_toy",
        "overrides": {"checkpoint.resume_from": f"runs/{run.pk}/checkpoints/iteration-000010"},
    }
    assert caller(user, "launch")("runs/", body).status_code == 201
    refused = caller(outsider, "launch")("runs/", body)
    assert "of a run that you may see" in refused.json()["errors"]["checkpoint.resume_from"]


def test_models_of_servers_folders_are_read(user: User, project: Project, settings: Any, home: Path) -> None:
    settings.TROUPE_MODEL_FOLDERS = [str(home.parent / "shared")]
    for place in (
        home / "models" / "small",
        home.parent / "shared" / "small",
        home.parent / "elsewhere" / "small",
    ):
        place.mkdir(parents=True)
        (place / "config.json").write_text(json.dumps(SHAPE))
    call = caller(user, "launch")
    for model in (
        "small",
        "models/small",
        str(home / "models" / "small"),
        str(home.parent / "shared" / "small"),
    ):
        found = WAYS["estimate"](call, {MODEL: model}).json()
        planner = next(each for each in found["policies"] if each["policy"] == "planner")
        assert planner["parameters"], model
    assert WAYS["estimate"](call, {MODEL: str(home.parent / "elsewhere" / "small")}).status_code == 400
    tree = {
        "team": {"roles": {"planner": {"policy": "p"}, "executor": {"policy": "p"}}},
        "policies": {"p": {"model": "small"}},
    }
    assert appraise(parse_permitted_for(user, tree)).policies[0].parameters


def test_a_link_into_the_data_folder_opens_nothing(
    user: User, project: Project, policy: str, settings: Any, home: Path
) -> None:
    settings.TROUPE_HOME = home / "data"
    settings.TROUPE_HOME.mkdir()
    (home / "link").symlink_to(settings.TROUPE_HOME)
    settings.TROUPE_MODEL_FOLDERS = [str(home)]
    said = WAYS["estimate"](caller(user, "launch"), {MODEL: f"{home}/link/runs/x"})
    assert (said.status_code, MODEL in said.json()["errors"]) == (400, True)
    assert WAYS["estimate"](caller(user, "launch"), {MODEL: f"{home}/runs/x"}).status_code == 200
