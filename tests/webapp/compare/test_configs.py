"""In what configs differ: by hand, and by a naive walk over two whole configs."""

from typing import Any

import pytest
from django.test import Client
from rest_framework.test import APIClient

from training_core.config.files import load_config
from webapp.accounts.models import Project, User
from webapp.compare.configs import configs_differ, sections_of
from webapp.runs.families import family_of
from webapp.runs.models import Run


def made(user: User, project: Project, name: str, config: dict[str, Any], **facts: Any) -> Run:
    return Run.objects.create(
        name=name,
        project=project,
        owner=user,
        iterations=1,
        config=config,
        family=family_of(config),
        facts=facts,
    )


@pytest.mark.django_db
def test_by_hand(user: User, project: Project) -> None:
    first = made(
        user,
        project,
        "a",
        {"run": {"seed": 0}, "x": {"flag": True, "list": [1, 2], "deep": {"n": 1}}},
        packages={"torch": "2"},
    )
    second = made(
        user,
        project,
        "a",
        {"run": {"seed": 1}, "x": {"flag": True, "list": [1, 2], "deep": {"n": 1}}},
        packages={"torch": "2"},
    )
    third = made(
        user,
        project,
        "b",
        {"run": {"seed": 0}, "x": {"flag": False, "list": [1, 3], "new": None}},
        packages={"torch": "3"},
    )
    found = configs_differ([first, second, third], "family")
    assert [group["label"] for group in found["groups"]] == ["a", "b"]
    cells = {
        field["path"]: [(cell["values"], cell["absent"]) for cell in field["cells"]]
        for field in found["fields"]
    }
    assert cells == {
        "run.seed": [([0, 1], False), ([0], False)],
        "x.list": [([[1, 2]], False), ([[1, 3]], False)],
        "x.deep.n": [([1], False), ([], True)],
        "x.new": [([], True), ([None], False)],
        "packages.torch": [(["2"], False), (["3"], False)],
        "x.flag": [([True], False), ([False], False)],
    }
    assert found["same"] == 0
    assert {section["name"]: section["different"] for section in sections_of(found)} == {
        "run": 1,
        "x": 4,
        "packages": 1,
    }
    whole = configs_differ([first, second], "run", everything=True)
    assert [field["path"] for field in whole["fields"] if not field["same"]] == ["run.seed"]
    assert whole["same"] == 4


@pytest.mark.django_db
def test_pages_api_and_strangers(client: Client, user: User, stranger: User, project: Project) -> None:
    configs = [
        load_config("plan_path_duo", {"rollout.group_size": size}).model_dump(mode="json") for size in (4, 8)
    ]
    runs = [made(user, project, "<b>duo</b>", config) for config in configs]
    query = {"runs": ",".join(run.pk for run in runs)}
    api = APIClient()
    api.force_authenticate(user)
    (field,) = api.get("/api/v1/compare/config/", query).json()["fields"]
    assert field["path"] == "rollout.group_size" and [cell["values"] for cell in field["cells"]] == [[4], [8]]
    everything = api.get("/api/v1/compare/config/", query | {"all": "1"}).json()
    assert len(everything["fields"]) == everything["same"] + 1 > 50
    client.force_login(user)
    page = client.get("/compare/config/", query)
    text = page.content.decode()
    assert (
        page.status_code == 200
        and "rollout.group_size" in text
        and "rollout.tasks" not in text.split("<details")[1]
    )
    assert "<b>duo" not in text and "&lt;b&gt;duo" in text
    same = client.get("/compare/config/", {"runs": runs[0].pk}).content.decode()
    assert "Their configs are the same" in same
    client.force_login(stranger)
    assert client.get("/compare/config/", query).status_code == 404
