"""Default columns of the runs table: they follow what its runs log, with a constant number of queries."""

from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from rest_framework.test import APIClient

from tests.webapp.elements import elements
from troupe_client.documents.launches import ClientRunBody
from webapp.accounts.models import Project, User
from webapp.metrics.services import points_store
from webapp.run_table.columns import columns_of_runs, columns_read, rows_cells
from webapp.run_table.headlines import BESIDE_CHARTS, MIXED, OWN, STANDARD, columns_default, metric_compared
from webapp.runs.models import Run
from webapp.runs.selectors import run_summary
from webapp.scheduling.client_runs import client_run_begin
from workers.telemetry.events import MetricsEvent

pytestmark = pytest.mark.django_db
Program = Callable[..., Run]


@pytest.fixture
def program(user: User, project: Project) -> Program:
    """Make the run of a custom program that logs these values at step 0, and twice them at step 1."""

    def made(number: int, values: dict[str, float], headline: tuple[str, ...] = ()) -> Run:
        run, _ = client_run_begin(
            user, project, ClientRunBody(id=f"2345678{number}", headline=list(headline))
        )
        head: dict[str, Any] = {"run": run.pk, "attempt": 1, "producer": "p", "seq": 1, "time": 0.0}
        events = [
            MetricsEvent(
                **head,
                type="metrics",
                step=step,
                values={key: value * (step + 1) for key, value in values.items()},
            )
            for step in range(2)
        ]
        points_store(run, 1, 1, events)
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


def test_the_page_and_the_api_read_all_runs_at_once(program: Program, user: User, client: Client) -> None:
    client.force_login(user)

    def queries() -> int:
        with CaptureQueriesContext(connection) as made:
            page = client.get("/runs/")
        assert len(elements(page, "td.own")) == Run.objects.count()
        return len(made)

    program(2, {"a/reward": 1.0})
    program(3, {})
    client.get("/runs/")
    few = queries()
    for number in range(4, 9):
        program(number, {f"c{number}/score": 1.0})
    assert queries() == few
    api = APIClient()
    api.force_authenticate(user)
    answer = api.get("/api/v1/runs/", {"columns": OWN, "sort": "created"}).json()["results"][0]
    assert answer["columns"] == {OWN: {"metric": "a/reward", "value": 2.0}} and answer["changes"] == {
        OWN: 1.0
    }
