"""Columns of the runs table: values by hand, the defaults that follow what its runs log, and the introduction in their place."""

import math
import random
from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from rest_framework.test import APIClient

from tests.webapp.elements import elements
from training_core.errors import ConfigError
from troupe_client.documents.launches import ClientRunBody
from webapp.accounts.models import Project, User
from webapp.metrics.services import points_store
from webapp.run_table.columns import (
    BESIDE_CHARTS,
    MIXED,
    OWN,
    STANDARD,
    columns_default,
    columns_of_runs,
    columns_read,
    metric_compared,
    rows_cells,
)
from webapp.run_table.filters import runs_list, runs_sort
from webapp.runs.models import Run
from webapp.runs.selectors import DEMONSTRATION, run_summary
from webapp.scheduling.client_runs import client_run_begin
from workers.telemetry.events import MetricsEvent

Program = Callable[..., Run]


def store(run: Run, steps: list[dict[str, Any]]) -> None:
    """Store the values of each step."""
    head: dict[str, Any] = {
        "run": run.pk, "attempt": 1, "producer": "p", "seq": 1, "time": 0.0, "type": "metrics",
    }  # fmt: skip
    points_store(
        run, 1, 1, [MetricsEvent(**head, step=step, values=values) for step, values in enumerate(steps)]
    )


@pytest.fixture
def program(user: User, project: Project) -> Program:
    """Make the run of a custom program that logs these values at step 0, and twice them at step 1."""

    def made(number: int, values: dict[str, float], headline: tuple[str, ...] = ()) -> Run:
        run, _ = client_run_begin(
            user, project, ClientRunBody(id=f"2345678{number}", headline=list(headline))
        )
        store(run, [{key: value * (step + 1) for key, value in values.items()} for step in range(2)])
        run.refresh_from_db()
        return run

    return made


def middle(runs: list[Run]) -> tuple[str, ...]:
    return columns_default(runs)[2:-1]


def test_metrics_of_most_programs_are_columns_and_others_have_one_of_their_own(program: Program) -> None:
    one = program(2, {"lr": 1.0, "loss": 1.0, "train/reward": 1.0})
    two = program(3, {"loss": 1.0, "train/reward": 1.0, "epoch": 1.0})
    chosen = program(4, {"loss": 1.0, "depth": 1.0}, headline=("depth",))
    silent = program(5, {})
    assert middle([one, two]) == ("train/reward", "metric.loss")
    assert middle([one, two, chosen]) == ("train/reward", "metric.loss", OWN)
    assert middle([one, chosen]) == middle([silent]) == (OWN,)
    assert middle([one, two, silent]) == ("train/reward", "metric.loss"), "it may log them later"
    assert columns_default([one, two], beside_charts=True) == ("train/reward",)


def test_programs_are_compared_by_a_metric_that_most_of_them_have(
    program: Program, user: User, project: Project
) -> None:
    runs = [program(2, {"eval/loss": 1.0, "train/loss": 1.0}), program(3, {"reward": 1.0, "train/loss": 1.0})]
    assert metric_compared(runs) == "train/loss" and metric_compared([program(4, {"a reward": 1.0})]) == ""
    assert metric_compared([]) == ""
    ours = Run.objects.create(name="ours", config={}, iterations=1, project=project, owner=user)
    assert metric_compared([*runs, ours]) == ""


def test_runs_of_troupe_keep_their_columns(program: Program, user: User, project: Project) -> None:
    ours = Run.objects.create(name="ours", config={}, iterations=1, project=project, owner=user)
    same_names = program(2, {"train/return": 1.0, "loss": 1.0})
    assert columns_default([ours, same_names]) == columns_default([]) == STANDARD
    assert columns_default([ours], beside_charts=True) == BESIDE_CHARTS
    assert columns_default([ours, program(3, {"loss": 1.0})]) == MIXED


def test_names_of_programs_have_no_explanation_of_troupe(
    program: Program, user: User, project: Project
) -> None:
    ours = Run.objects.create(name="ours", config={}, iterations=1, project=project, owner=user)
    runs, columns = [program(2, {"train/loss": 1.0})], columns_read("train/loss,progress")
    assert [column.explained[0] for column in columns_of_runs(columns, runs)] == ["", "column"]
    assert [column.explained[0] for column in columns_of_runs(columns, [*runs, ours])] == ["metric", "column"]


def test_a_cell_has_the_name_the_value_and_its_change(program: Program) -> None:
    runs = [
        program(2, {"reward": 2.0, "loss": 1.0}),
        program(3, {"depth": 3.0, "loss": 1.0}, headline=("depth",)),
        program(4, {}),
    ]
    rows = rows_cells(runs, [run_summary(run) for run in runs], columns_read(OWN))
    assert [(cell.value, cell.change) for (cell,) in rows] == [
        ({"metric": "reward", "value": 4.0}, 2.0),
        ({"metric": "depth", "value": 6.0}, 3.0),
        (None, None),
    ]


def test_the_page_and_the_api_read_all_runs_at_once(program: Program, api: APIClient, ada: Client) -> None:

    def queries() -> int:
        with CaptureQueriesContext(connection) as made:
            page = ada.get("/runs/")
        assert len(elements(page, "td.own")) == Run.objects.count()
        return len(made)

    program(2, {"a/reward": 1.0})
    program(3, {})
    ada.get("/runs/")
    few = queries()
    for number in range(4, 9):
        program(number, {f"c{number}/score": 1.0})
    assert queries() == few
    answer = api.get("/api/v1/runs/", {"columns": OWN, "sort": "created"}).json()["results"][0]
    assert answer["columns"] == {OWN: {"metric": "a/reward", "value": 2.0}}
    assert answer["changes"] == {OWN: 1.0}


WORDS = "Troupe trains teams of agents by reinforcement learning"


@pytest.mark.parametrize(("tags", "introduced"), [([DEMONSTRATION], True), ([], False)])
def test_demonstration_alone_is_introduced(ada: Client, run: Run, tags: list[str], introduced: bool) -> None:
    Run.objects.filter(pk=run.pk).update(tags=tags)
    assert (WORDS in ada.get("/runs/").content.decode()) is introduced
    assert WORDS not in ada.get("/runs/?state=running").content.decode()


def test_a_variation_of_the_demonstration_ends_the_introduction(ada: Client, user: User, run: Run) -> None:
    Run.objects.filter(pk=run.pk).update(tags=[DEMONSTRATION])
    Run.objects.create(project=run.project, owner=user, config=run.config, iterations=1, tags=[DEMONSTRATION])
    assert WORDS not in ada.get("/runs/").content.decode()


Make = Callable[..., Run]


@pytest.fixture
def make(user: User, project: Project) -> Make:
    def made(name: str, seed: Any = 0, metrics: dict[str, list[Any]] | None = None, **fields: Any) -> Run:
        config = {"run": {"seed": seed}, "algorithm": {"type": "grpo", "modes": ["a", "b"]}}
        given = {"state": "finished", "config": config, "project": project, "owner": user, "iterations": 10}
        run = Run.objects.create(name=name, **given | fields)
        for key, values in (metrics or {}).items():
            store(run, [{key: value} for value in values])
        return run

    return made


def shown(run: Run, text: str) -> dict[str, tuple[Any, Any]]:
    (cells,) = rows_cells([run], [run_summary(run)], columns_read(text))
    return {cell.column.word: (cell.value, cell.change) for cell in cells}


def test_each_kind_by_hand(make: Make) -> None:
    metrics = {"eval/success": [0.25, 1.0, 0.75], "loss/all": ["NaN", 2.0, 0.5, "Infinity"], "x/nan": ["NaN"]}
    run = make("a", seed=7, metrics=metrics, priority=3)
    assert shown(run, "run.seed, algorithm.type,algorithm.modes,run.none,priority,owner") == {
        "run.seed": (7, None),
        "algorithm.type": ("grpo", None),
        "algorithm.modes": (["a", "b"], None),
        "run.none": (None, None),
        "priority": (3, None),
        "owner": ("ada", None),
    }
    words = "eval/success,eval/success:max,eval/success:min,eval/success:first,loss/all,loss/all:max,loss/all:min,x/nan,no/such"
    assert shown(run, words) == {
        "eval/success": (0.75, 0.5),
        "eval/success:max": (1.0, 0.75),
        "eval/success:min": (0.25, 0.0),
        "eval/success:first": (0.25, None),
        "loss/all": ("Infinity", None),
        "loss/all:max": (2.0, 0.0),
        "loss/all:min": (0.5, -1.5),
        "x/nan": ("NaN", None),
        "no/such": (None, None),
    }


def test_a_metric_without_a_slash_is_a_column_and_an_order(make: Make) -> None:
    for name, value in (("low", 1.0), ("high", 2.0)):
        run = make(name, metrics={"loss": [3.0, value]})
        assert shown(run, "metric.loss, metric.loss:max") == {
            "metric.loss": (value, value - 3.0),
            "metric.loss:max": (3.0, 0.0),
        }
    for wanted, order in (("metric.loss", ["low", "high"]), ("-metric.loss", ["high", "low"])):
        assert [run.name for run in runs_sort(Run.objects.all(), wanted)] == order


def test_the_standard_columns_are_those_of_none_and_need_no_series(
    make: Make, django_assert_num_queries: Any
) -> None:
    run = make("a", metrics={"eval/success": [0.5, 0.25]})
    summary = run_summary(run)
    with django_assert_num_queries(0):
        (cells,) = rows_cells([run], [summary], columns_read(""))
    assert tuple(cell.column.word for cell in cells) == STANDARD
    success = cells[STANDARD.index("eval/success")]
    assert (success.value, success.change, success.tone) == (0.25, -0.25, "bad")


@pytest.mark.parametrize(
    "text", ["colour", "run.seed,nothing", "a\0.b", ",".join(f"a.b{n}" for n in range(21)), "a." * 2000]
)
def test_what_is_no_column_is_refused(text: str, api: APIClient, ada: Client) -> None:
    with pytest.raises(ConfigError, match="column"):
        columns_read(text)
    assert api.get("/api/v1/runs/", {"columns": text}).status_code == 400
    refused_text = "\0" in text
    assert ada.get("/runs/", {"columns": text}).status_code == (400 if refused_text else 200)


def test_any_metric_and_any_field_is_an_order(user: User, make: Make) -> None:
    draw = random.Random(0)
    runs = [
        make(str(place), seed=draw.randrange(5), metrics={"a/b": [draw.random() for _ in range(4)]})
        for place in range(12)
    ]
    make("without", seed=None)
    make("nan", metrics={"a/b": ["NaN"]})
    values = {run.name: run for run in runs}
    best = {
        row["run__name"]: row["max_value"]
        for row in runs[0].series.model.objects.values("run__name", "max_value")
    }
    for sign in (1, -1):
        sort = ("-" if sign < 0 else "") + "a/b:max"
        found = [run.name for run in runs_list(user, {"sort": sort})]
        assert found[:12] == sorted(values, key=lambda name: sign * (best[name] or math.nan))
        assert set(found[12:]) == {"without", "nan"}
    seeds = [
        run.config["run"]["seed"] for run in runs_list(user, {"sort": "run.seed", "filter": "run.seed >= 0"})
    ]
    assert seeds == sorted(seeds) and len(seeds) == 13
    last = [run.name for run in runs_list(user, {"sort": "-a/b"})]
    assert set(last[-2:]) == {"without", "nan"}


def test_the_api_has_columns_and_keeps_the_order_over_pages(api: APIClient, make: Make) -> None:
    for place, value in enumerate([0.5, 0.75, 0.25, 1.0, 0.0]):
        make(str(place), seed=place, metrics={"a/b": [0.25, value]})
    query = {"columns": "run.seed,a/b", "sort": "-a/b", "limit": 2}
    seen, address = [], "/api/v1/runs/"
    answer = api.get(address, query).json()
    assert answer["previous"] is None
    assert answer["results"][0]["columns"] == {"run.seed": 3, "a/b": 1.0}
    assert answer["results"][0]["changes"] == {"a/b": 0.75}
    while True:
        seen += [row["columns"]["a/b"] for row in answer["results"]]
        if not answer["next"]:
            break
        answer = api.get(answer["next"]).json()
    assert seen == [1.0, 0.75, 0.5, 0.25, 0.0]
    assert [row["columns"]["a/b"] for row in api.get(answer["previous"]).json()["results"]] == [0.5, 0.25]
    assert api.get(address).json()["results"][0]["columns"] == {}
    for wrong in ({"sort": "colour"}, {"sort": "a\0/b"}, {"sort": "a/b", "offset": "-1"}):
        assert api.get(address, wrong).status_code == 400


def test_pages_cost_the_same_queries_for_many_runs(make: Make, ada: Client) -> None:
    query = {"columns": "run.seed,a/b,a/b:max", "sort": "-a/b", "filter": "run.seed = 0"}
    costs = []
    for _ in range(2):
        make("one", metrics={"a/b": [1.0]})
        with CaptureQueriesContext(connection) as taken:
            page = ada.get("/runs/", query).content.decode()
        costs.append(len(taken))
    assert costs[0] == costs[1] and page.count("data-run=") == 2


def test_families_have_the_columns_too(make: Make, ada: Client) -> None:
    for seed, value in enumerate([1.0, 3.0, math.inf]):
        make(
            "duo", seed=seed, family="f1", metrics={"a/b": [0.0, "Infinity" if math.isinf(value) else value]}
        )
    make("alone", seed=9, family="f2")
    answer = ada.get("/runs/", {"group": "family", "columns": "run.seed,algorithm.type,a/b,a/b:max,created"})
    rows = {row["name"]: row["cells"] for row in answer.context["rows"]}
    seed, kind, last, most = rows["duo"]
    assert (seed.value, kind.value) == ("differs", "grpo") and rows["alone"][0].value == 9
    assert (last.mean, last.deviation, last.count) == (2.0, pytest.approx(math.sqrt(2)), 2)
    assert (most.mean, most.count) == (pytest.approx(4 / 3), 3)
    assert (rows["alone"][2].mean, rows["alone"][2].count) == (None, 0)


def test_families_are_ordered_by_any_column(make: Make, ada: Client) -> None:
    for name, seed, values in (("b", 2, [1.0, 3.0]), ("a", 10, [5.0, math.inf]), ("c", 1, [])):
        make(name, seed=seed, family=name)
        for value in values:
            last = "Infinity" if math.isinf(value) else value
            make(name, seed=seed, family=name, metrics={"eval/success": [0.0, last], "a/b": [0.0, last]})

    def ordered(sort: str) -> list[str]:
        query = {"group": "family", "columns": "run.seed,a/b", "sort": sort}
        return [row["name"] for row in ada.get("/runs/", query).context["rows"]]

    assert ordered("") == ordered("-created") == ["c", "a", "b"] and ordered("created") == ["b", "a", "c"]
    assert ordered("name") == ["a", "b", "c"] and ordered("-runs")[-1] == "c"
    assert ordered("-a/b") == ["a", "b", "c"] and ordered("a/b:max") == ["b", "a", "c"]
    assert ordered("run.seed") == ["c", "b", "a"] and ordered("-run.seed") == ["a", "b", "c"]
    page = ada.get("/runs/", {"group": "family", "columns": "a/b", "sort": "-a/b"})
    assert [header["aria-sort"] for header in elements(page, "th")] == ["none", "none", "descending", "none"]


def test_completion_offers_what_the_runs_have(api: APIClient, make: Make) -> None:
    make("a", metrics={"eval/success": [1.0]})

    def offered(text: str) -> list[str]:
        found = api.get("/api/v1/columns/complete/", {"text": text}).json()["options"]
        return [item["text"] for item in found]

    assert offered("eval/s") == ["eval/success", "eval/success:max", "eval/success:min", "eval/success:first"]
    assert offered("seed") == ["run.seed"] and offered("own") == ["owner"] and offered("tag") == []
