"""Experiments of MLflow in a project."""

import pytest
from django.test import Client

from tests.webapp.mlflow.conftest import Ask, asker
from webapp.accounts.models import Membership, Project, User
from webapp.accounts.tokens import token_create
from webapp.mlflow.models import MlflowExperiment
from webapp.runs.models import Run


def names(ask: Ask, **arguments: object) -> list[str]:
    return [item["name"] for item in ask("POST", "experiments/search", **arguments)["experiments"]]


def test_an_experiment_is_created_once(ask: Ask, experiment: str, project: Project) -> None:
    refused = ask("POST", "experiments/create", 400, name="tuning")
    assert refused["error_code"] == "RESOURCE_ALREADY_EXISTS"
    assert MlflowExperiment.objects.get().project == project
    same = [
        ask("GET", "experiments/get", experiment_id=experiment)["experiment"],
        ask("GET", "experiments/get-by-name", experiment_name="tuning")["experiment"],
    ]
    assert same[0] == same[1] and (same[0]["experiment_id"], same[0]["lifecycle_stage"]) == (
        experiment,
        "active",
    )
    missing = ask("GET", "experiments/get-by-name", 404, experiment_name="other")
    assert missing["error_code"] == "RESOURCE_DOES_NOT_EXIST"


def test_the_experiment_of_programs_that_name_none_is_always_there(ask: Ask) -> None:
    default = ask("GET", "experiments/get", experiment_id="0")["experiment"]
    assert default == ask("GET", "experiments/get-by-name", experiment_name="Default")["experiment"]
    assert (default["name"], default["experiment_id"]) == ("Default", "0")
    assert not MlflowExperiment.objects.exists(), "reading creates nothing"
    made = ask("POST", "runs/create", experiment_id="0")["run"]["info"]
    stored = ask("GET", "experiments/get", experiment_id="0")["experiment"]
    assert made["experiment_id"] == stored["experiment_id"] != "0"
    assert Run.objects.get(pk=made["run_id"]).tags == []


def test_an_experiment_is_renamed_tagged_deleted_and_restored(user: User, ask: Ask, experiment: str) -> None:
    ask("POST", "experiments/set-experiment-tag", experiment_id=experiment, key="team", value="red")
    ask("POST", "experiments/set-experiment-tag", experiment_id=experiment, key="old", value="x")
    ask("POST", "experiments/delete-experiment-tag", experiment_id=experiment, key="old")
    ask("POST", "experiments/update", experiment_id=experiment, new_name="second")
    read = ask("GET", "experiments/get", experiment_id=experiment)["experiment"]
    assert (read["name"], read["tags"]) == ("second", [{"key": "team", "value": "red"}])
    ask("POST", "experiments/delete", 403, experiment_id=experiment)
    asker(token_create(user, "all", ["admin"])[1])("POST", "experiments/delete", experiment_id=experiment)
    assert names(ask) == [] and names(ask, view_type="DELETED_ONLY") == ["second"]
    ask("POST", "runs/create", 400, experiment_id=experiment)
    ask("POST", "experiments/update", 400, experiment_id=experiment, new_name="third")
    ask("POST", "experiments/set-experiment-tag", 400, experiment_id=experiment, key="a", value="b")
    ask("POST", "experiments/restore", experiment_id=experiment)
    assert names(ask) == ["second"]


def test_experiments_are_searched_in_pages(ask: Ask) -> None:
    for name in ("a1", "a2", "b1"):
        ask("POST", "experiments/create", name=name, tags=[{"key": "kind", "value": name[0]}])
    assert names(ask, filter="name LIKE 'a%'", order_by=["name DESC"]) == ["a2", "a1"]
    assert names(ask, filter="tags.kind = 'b'") == ["b1"]
    first = ask("POST", "experiments/search", max_results=2, order_by=["name"])
    assert [item["name"] for item in first["experiments"]] == ["a1", "a2"]
    assert names(ask, max_results=2, order_by=["name"], page_token=first["next_page_token"]) == ["b1"]


def test_the_address_names_the_project(user: User, secret: str, project: Project) -> None:
    other = Project.objects.create(slug="other", name="Other")
    Membership.objects.create(project=other, user=user, level=Membership.Level.OWNER)
    Project.objects.create(slug="foreign", name="Foreign")
    made = asker(secret, "/mlflow/other")("POST", "experiments/create", name="tuning")["experiment_id"]
    assert MlflowExperiment.objects.get(pk=made).project == other
    assert names(asker(secret, "/mlflow/lab")) == names(asker(secret)) == []
    refused = asker(secret, "/mlflow/foreign")("POST", "experiments/create", 404, name="tuning")
    assert refused["error_code"] == "RESOURCE_DOES_NOT_EXIST"


@pytest.mark.parametrize(
    ("method", "name"),
    [
        ("PUT", "logged-models/m-1"),
        ("POST", "registered-models/create"),
        ("GET", "traces/x"),
        ("PATCH", "traces/x"),
        ("GET", "runs/x"),
    ],
)
def test_what_troupe_has_not_is_named(secret: str, ask: Ask, method: str, name: str) -> None:
    response = Client(headers={"Authorization": f"Bearer {secret}"}).generic(
        method, f"/mlflow/api/2.0/mlflow/{name}"
    )
    assert response.status_code == 404
    assert response.json()["error_code"] == "ENDPOINT_NOT_FOUND" and name in response.json()["message"]


def test_reading_creates_nothing_for_a_viewer(stranger: User, project: Project) -> None:
    Membership.objects.create(project=project, user=stranger, level=Membership.Level.VIEWER)
    reads = asker(token_create(stranger, "theirs", ["read"])[1], "/mlflow/lab")
    assert reads("GET", "experiments/get", experiment_id="0")["experiment"]["name"] == "Default"
    assert names(reads) == [] and not MlflowExperiment.objects.exists()
