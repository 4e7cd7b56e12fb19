"""Many runs at once: what is done, what is refused, and how the table orders and groups them."""

import statistics
from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client
from rest_framework.test import APIClient

from training_core.config.files import load_config
from training_core.errors import ConfigError
from webapp.accounts.models import AuditEntry, Membership, Project, User
from webapp.run_table.columns import families_list
from webapp.run_table.filters import SORTS, runs_list
from webapp.runs.configs import family_of
from webapp.runs.models import Run
from webapp.scheduling.services import ACTS, run_create, run_do, runs_do

Make = Callable[..., Run]


@pytest.fixture
def make(user: User, project: Project) -> Make:
    def made(name: str, **fields: Any) -> Run:
        given = {"state": "finished", "config": {}, "project": project, "owner": user, "iterations": 10}
        return Run.objects.create(name=name, **given | fields)

    return made


def test_one_that_refuses_does_not_keep_the_others(user: User, make: Make) -> None:
    ended, busy = make("a"), make("b", state="running")
    done = runs_do(user, [ended.pk, busy.pk, "nosuchid", ended.pk], "archive")
    assert [(item["id"], item["ok"]) for item in done] == [
        (ended.pk, True),
        (busy.pk, False),
        ("nosuchid", False),
    ]
    assert "stop it first" in done[1]["detail"] and "not found" in done[2]["detail"]
    assert [run.name for run in runs_list(user)] == ["b"]
    assert {run.name for run in runs_list(user, {"archived": True})} == {"a", "b"}
    assert [run.name for run in runs_list(user, {"filter": "archived = true"})] == ["a"]
    assert AuditEntry.objects.get().act == "run.archive"


def test_tags_and_priority(user: User, make: Make) -> None:
    run = make("a", tags=["old"])
    for act, value in [("tag", " new "), ("tag", "new"), ("untag", "old"), ("priority", "-5")]:
        run_do(user, run, act, value)
    run.refresh_from_db()
    assert run.tags == ["new"] and run.priority == -5


@pytest.mark.parametrize(
    ("act", "value"),
    [
        ("tag", ""),
        ("tag", "x" * 61),
        ("tag", "\0"),
        ("priority", "high"),
        ("priority", "1001"),
        ("explode", ""),
    ],
)
def test_bad_values_change_nothing(user: User, make: Make, act: str, value: str) -> None:
    run = make("a")
    with pytest.raises(ConfigError):
        runs_do(user, [run.pk], act, value)
    run.refresh_from_db()
    assert run.tags == [] and run.priority == 0 and not AuditEntry.objects.exists()


@pytest.mark.parametrize("act", ACTS)
def test_a_viewer_changes_nothing(make: Make, project: Project, act: str) -> None:
    run = make("a", state="paused" if act == "resume" else "running")
    viewer = User.objects.create_user("eve")
    Membership.objects.create(project=project, user=viewer, level=Membership.Level.VIEWER)
    (done,) = runs_do(viewer, [run.pk], act, "5")
    assert not done["ok"]
    before = Run.objects.values().get(pk=run.pk)
    assert before["tags"] == [] and before["priority"] == 0 and before["state"] == run.state


def test_stop_by_the_page_and_by_the_api(make: Make, ada: Client, api: APIClient) -> None:
    first, second = make("a", state="queued"), make("b", state="queued")
    page = ada.post(
        "/runs/bulk/",
        {"runs": [first.pk, "nosuchid"], "act": "stop", "next": "/runs/?sort=name"},
        follow=True,
    )
    assert page.redirect_chain[0][0] == "/runs/?sort=name"
    assert "Done for 1 run." in page.content.decode() and "nosuchid" in page.content.decode()
    assert (
        ada.post("/runs/bulk/", {"runs": [], "act": "stop", "next": "https://evil.example"}).url == "/runs/"
    )  # type: ignore[attr-defined]
    answer = api.post("/api/v1/bulk/", {"runs": [second.pk], "act": "stop"}, format="json")
    assert answer.json() == {"results": [{"id": second.pk, "ok": True, "detail": ""}]}
    assert set(Run.objects.values_list("state", flat=True)) == {"stopped"}
    for body in (
        {"runs": "x"},
        {"runs": [1], "act": "stop"},
        {"runs": [first.pk]},
        [],
        {"runs": ["a"] * 2, "act": "x"},
    ):
        assert api.post("/api/v1/bulk/", body, format="json").status_code == 400


def test_every_order_is_one_and_missing_values_come_last(user: User, make: Make) -> None:
    make("b", headline={"eval/success": 0.2}, iteration=5)
    make("a", headline={"eval/success": 0.9}, iteration=1)
    make("c", headline={}, iteration=9)
    for sort in SORTS:
        for sign in ("", "-"):
            assert len(runs_list(user, {"sort": sign + sort})) == 3
    order = {
        sort: [run.name for run in runs_list(user, {"sort": sort})]
        for sort in ("name", "-iteration", "eval/success", "-eval/success")
    }
    assert order == {
        "name": ["a", "b", "c"],
        "-iteration": ["c", "b", "a"],
        "eval/success": ["b", "a", "c"],
        "-eval/success": ["a", "b", "c"],
    }


def test_a_family_is_all_but_the_seed(user: User, project: Project) -> None:
    tree = load_config("plan_path_duo").model_dump(mode="json")
    runs = [run_create(user, project, tree, "", {"run.seed": seed}) for seed in (0, 1)]
    other = run_create(user, project, tree, "", {"rollout.group_size": 2})
    assert runs[0].family == runs[1].family != other.family
    config = {"run": {"seed": 0, "name": "a", "iterations": 5}, "algorithm": {"lr": 0.1}}
    same = {"algorithm": {"lr": 0.1}, "run": {"iterations": 5, "name": "b", "seed": 7, "tags": ["x"]}}
    assert family_of(config) == family_of(same)
    assert family_of({**config, "algorithm": {"lr": 0.2}}) != family_of(config)
    assert family_of({**config, "run": {**config["run"], "iterations": 6}}) != family_of(config)


def test_families_show_mean_and_deviation(user: User, make: Make, ada: Client, api: APIClient) -> None:
    values = [0.2, 0.5, 0.6]
    for seed, value in enumerate(values):
        make(f"duo {seed}", family="f1", headline={"eval/success": value})
    make("duo without", family="f1")
    make("alone", family="f2", headline={"eval/success": 0.3})
    rows = {row["family"]: row for row in families_list(runs_list(user))}
    assert rows["f1"]["runs"] == 4 and rows["f1"]["eval_success_n"] == 3
    assert rows["f1"]["eval_success_mean"] == pytest.approx(statistics.mean(values))
    assert rows["f1"]["eval_success_sd"] == pytest.approx(statistics.stdev(values))
    assert rows["f2"]["eval_success_sd"] is None and rows["f2"]["train_return_n"] == 0
    assert len(api.get("/api/v1/families/", {"filter": "eval/success > 2"}).json()["results"]) == 0
    assert len(api.get("/api/v1/families/").json()["results"]) == 2
    page = ada.get("/runs/", {"group": "family"}).content.decode()
    assert "duo 0" in page and "n 3" in page and "family+%3D+f1" in page
