"""Queries on pages, in the API and in files: stream, table, curve, saved queries, counts."""

import csv
import io
import json
import re
from itertools import pairwise
from typing import Any

import pytest
from django.test import Client
from rest_framework.test import APIClient

from tests.webapp.elements import text_of
from tests.webapp.transcripts.test_episodes import candidate, played, turn
from webapp.accounts.models import Membership, Project, User
from webapp.metrics.models import Series
from webapp.runs.models import Run
from webapp.transcripts.models import Episode, SavedQuery
from webapp.transcripts.query_curve import wilson
from webapp.transcripts.services import episodes_store

WRONG_WALK = "planner.reward > 0 and executor.reward <= 0"


def text_of_page(page: str) -> str:
    return (
        " ".join(re.sub("<[^>]*>", " ", page).replace("&#x27;", "'").split())
        .replace(" .", ".")
        .replace(" ,", ",")
    )


@pytest.fixture
def many(run: Run) -> Run:
    """130 training episodes of 13 iterations, in 40 % of which the plan is right and the walk wrong; three evaluations."""
    events = [
        played(
            f"1-{number // 10}-train-{number % 10}", iteration=number // 10, success=number % 10 >= 4,
            rewards={"planner": 1.0, "executor": -1.0 if number % 10 < 4 else 0.5}, episode_return=float(number % 7),
        )
        for number in range(130)
    ]  # fmt: skip
    events += [
        played(f"1-{number}-eval-0", iteration=number, kind="eval", probe=True) for number in (0, 5, 10)
    ]
    episodes_store(run, 1, events)
    Series.objects.create(run=run, key="progress/episodes", last_value=9000)
    return run


@pytest.fixture
def visit(client: Client, user: User, many: Run) -> Any:
    client.force_login(user)

    def page(path: str, **query: str) -> str:
        answer = client.get(f"/runs/{many.pk}/transcripts/{path}", query)
        assert answer.status_code == 200
        return answer.content.decode()

    return page


@pytest.fixture
def download(client: Client, visit: Any, many: Run) -> Any:
    def read(path: str, **query: str) -> str:
        return b"".join(client.get(f"/runs/{many.pk}/transcripts/{path}", query)).decode()

    return read


@pytest.fixture
def api(user: User) -> APIClient:
    client = APIClient()
    client.force_authenticate(user)
    return client


def test_the_stream_shows_matches_and_says_what_they_are_of(visit: Any) -> None:
    text = text_of_page(visit("", query=WRONG_WALK, iteration_min="10"))
    assert (
        "12 of 133 kept match. Transcripts are samples: 130 of 9,000 training episodes played (8 per iteration), 3 of"
        in text
    )
    assert "10·3" in text and "10·4" not in text
    assert "133 kept. Transcripts are samples" in text_of_page(visit(""))
    assert "Invalid query: 'colour' is not a field" in text_of_page(visit("", query="colour = 1"))


def test_the_api_filters_and_refuses_with_a_column(api: APIClient, many: Run) -> None:
    episodes = f"/api/v1/runs/{many.pk}/episodes/"
    answer = api.get(episodes, {"query": WRONG_WALK, "limit": 100}).json()["results"]
    assert len(answer) == 52 and all(each["rewards"]["executor"] < 0 for each in answer)
    assert answer[0]["roles"]["planner"]["turns"] == 2 and "groups" not in answer[0]
    refused = api.get(episodes, {"query": "turns > 1 and colour = 1"})
    assert refused.status_code == 400 and "(column 15)" in refused.json()["errors"]["query"]
    for path in ("export/", "curve/", "table/", "table/export/"):
        assert api.get(f"{episodes}{path}", {"query": "colour = 1"}).status_code == 400, path
    assert len(b"".join(api.get(f"{episodes}export/", {"query": WRONG_WALK})).splitlines()) == 52
    assert len(api.get(episodes, {"outcome": "failed"}).json()["results"]) == 0, "the earlier name of error"


def test_completion_knows_roles_and_values(api: APIClient, many: Run) -> None:
    def options(text: str) -> list[str]:
        answer = api.get(f"/api/v1/runs/{many.pk}/episodes/complete/", {"text": text}).json()
        return [option["text"] for option in answer["options"]]

    assert "executor.reward" in options("turns > 1 and exec")
    assert options("kind = ") == ["train", "eval", "eval_sampled"] and options("group.v") == [
        "group.variance", "planner.group.variance", "executor.group.variance",
    ]  # fmt: skip


def test_the_curve_counts_shares_with_intervals(api: APIClient, many: Run, visit: Any, download: Any) -> None:
    curve = api.get(
        f"/api/v1/runs/{many.pk}/episodes/curve/", {"query": WRONG_WALK, "base": "iteration < 12"}
    ).json()
    train, greedy = curve["kinds"]
    assert [point["share"] for point in train["points"]] == [0.4] * 12
    assert (curve["matching"], curve["of"], curve["counts"]["played"]) == (48, 123, 9000)
    assert [point["first"] for point in greedy["points"]] == [0, 5, 10]
    point = train["points"][3]
    assert (point["low"], point["high"]) == pytest.approx((0.16818, 0.68733), abs=1e-4), "Wilson: 4 of 10"
    assert "4 of 133 kept match" in text_of_page(visit(point["address"].partition("transcripts/")[2]))
    page = text_of_page(visit("curve/", query=WRONG_WALK))
    assert "52 of 133 match" in page and "not of all episodes played" in page
    rows = list(csv.reader(io.StringIO(download("curve.csv", query=WRONG_WALK))))
    assert rows[0][0] == "kind" and len(rows) == 1 + 13 + 3
    assert "Invalid query" in visit("curve/", query="true", base="turns >")
    Episode.objects.filter(run=many, name="1-12-train-0").update(iteration=600)
    wide = api.get(f"/api/v1/runs/{many.pk}/episodes/curve/", {"query": WRONG_WALK}).json()
    assert wide["width"] == 11 and wide["of"] == 133


def test_wilson_intervals_by_hand() -> None:
    assert wilson(0, 10) == pytest.approx((0.0, 0.27753), abs=1e-4)
    assert wilson(10, 10) == pytest.approx((0.72247, 1.0), abs=1e-4)


def test_the_table_sorts_pages_and_exports(api: APIClient, many: Run, visit: Any, download: Any) -> None:
    page = visit("table/", sort="-return")
    assert "return (shaped)" in page and "page 1 of 2" in text_of_page(page)
    table = f"/api/v1/runs/{many.pk}/episodes/table/"
    asked = {"columns": "success,return,executor.reward,staleness,duration", "sort": "-return", "limit": "40"}
    rows: list[dict[str, Any]] = []
    address = table
    while address:
        answer = api.get(address, asked if address == table else None).json()
        rows, address = rows + answer["results"], answer["next"]
    assert len({row["id"] for row in rows}) == 133
    keys = [(row["success"], row["return"], row["id"]) for row in rows]
    assert keys == sorted(keys, reverse=True), "solved episodes first, then returns, then the newest"
    for column in (
        "executor.reward",
        "planner.advantage",
        "success",
        "kind",
        "planner.version",
        "duration",
        "error",
    ):
        found = [
            api.get(table, {"columns": column, "sort": sort, "limit": "200"}).json()["results"]
            for sort in (column, f"-{column}")
        ]
        for rows_, less in zip(found, (lambda a, b: a <= b, lambda a, b: a >= b), strict=True):
            known = [row[column] for row in rows_ if row[column] is not None]
            assert (
                all(less(a, b) for a, b in pairwise(known))
                and known == [row[column] for row in rows_][: len(known)]
            ), column
    upto = Episode.objects.filter(run=many).order_by("pk")[50].pk
    assert "51 episodes" in text_of_page(visit("table/", upto=str(upto)))
    lines = download("table.jsonl", query="kind = eval", columns="iteration,planner.reward").splitlines()
    assert [json.loads(line)["iteration"] for line in lines] == [10, 5, 0]
    text = download("table.csv", query="kind = eval", columns="iteration,planner.reward", sort="iteration")
    cells = [row[2:] for row in csv.reader(io.StringIO(text))]
    assert cells == [["iteration", "planner.reward"], ["0", "1.5"], ["5", "1.5"], ["10", "1.5"]]
    assert "Invalid columns" in visit("table/", columns="colour")
    wrong = text_of_page(visit("table/", sort="colour"))
    assert "Invalid order" in wrong and "0 episodes" in wrong and "133 episodes" not in wrong
    assert api.get(table, {"columns": "colour"}).status_code == 400


def test_saved_queries_belong_to_a_person_or_a_project(
    api: APIClient, client: Client, many: Run, visit: Any, project: Project, stranger: User
) -> None:
    body = {"name": "wrong walk", "query": WRONG_WALK, "project": project.slug}
    saved = api.post("/api/v1/queries/", body, format="json")
    assert saved.status_code == 201
    assert api.post("/api/v1/queries/", body, format="json").status_code == 400
    assert api.post("/api/v1/queries/", body | {"replace": True}, format="json").status_code == 201
    refused = api.post("/api/v1/queries/", {"name": "x", "query": "colour = 1"}, format="json")
    assert "not a field" in refused.json()["errors"]["query"]
    assert "wrong walk" in visit("") and 'aria-current="page"' in visit("", query=WRONG_WALK)
    answer = client.post(f"/runs/{many.pk}/transcripts/queries/", {"name": "mine", "query": "truncated"})
    assert answer.status_code == 302 and SavedQuery.objects.filter(name="mine", project=None).exists()
    Membership.objects.create(project=project, user=stranger, level=Membership.Level.VIEWER)
    api.force_authenticate(stranger)
    names = [each["name"] for each in api.get("/api/v1/queries/").json()["results"]]
    assert names == ["wrong walk"], "not those of other people"
    pk = saved.json()["id"]
    assert api.delete(f"/api/v1/queries/{pk}/").status_code == 403
    client.post(f"/runs/{many.pk}/transcripts/queries/{pk}/remove/")
    assert not SavedQuery.objects.filter(pk=pk).exists()


def test_equal_candidates_are_folded(client: Client, user: User, run: Run) -> None:
    same = [candidate("south south", reward=0.5) for _ in range(7)]
    other = candidate("north", reward=1.5)
    turns = [turn(0, "planner") | {"candidates": [*same[:3], other, *same[3:]], "executed": 4}]
    episodes_store(run, 1, [played("1-3-train-0", turns=turns)])
    client.force_login(user)
    episode = Episode.objects.get()
    address = f"/runs/{run.pk}/episodes/{episode.pk}/tree/"
    page = client.get(address).content.decode()
    assert page.count('data-card="') == 2 and "× 7" in text_of_page(page)
    assert page.count('id="node-1-') == 2
    assert 'href="?turn=1&amp;candidate=5"' in page, "the executed one of the seven"
    shown = text_of(client.get(f"{address}?candidate=4"))
    assert "north" in shown
