"""Pages of a run, and the tree of its ancestors."""

import gzip
import json
from typing import Any

import numpy as np
import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from tests.benchmarks.scale_fill import copy_points
from tests.end_to_end.seed import Story, encoded
from tests.webapp.elements import elements, text_of, texts_of
from webapp.accounts.models import Membership, Project, User
from webapp.accounts.permissions import Visitor
from webapp.ingest.services import batch_store
from webapp.metrics.models import Series
from webapp.run_pages import charts as charts_module
from webapp.run_pages import views
from webapp.run_pages.overview import MOST_ANCESTORS, leads_of, versus_parent
from webapp.runs.logs import LEVELS, log_sources
from webapp.runs.models import Attempt, LogLine, Run

POINTS = 100_000
KEYS = ["eval/success", "eval_sampled/success", "train/return", "eval/return", "rollout/staleness", "rollout/tokens_per_second"] + [
    f"{name}/{role}/{metric}"
    for name, metric in (("train", "reward"), ("policy", "entropy"), ("policy", "kl"), ("groups", "zero_variance"))
    for role in ("planner", "executor")
]  # fmt: skip
MOST = 200_000
"""Bytes of the compressed page; the chart library has 360,000."""


@pytest.mark.extended
def test_a_long_run_needs_few_bytes(run: Run, ada: Client) -> None:
    for number, key in enumerate(KEYS):
        values = np.sin(np.arange(POINTS) / 1000) + np.random.default_rng(number).normal(0, 0.1, POINTS)
        series = Series.objects.create(run=run, key=key, count=POINTS, last_step=POINTS - 1)
        copy_points(series, values)
    Run.objects.filter(pk=run.pk).update(event_count=POINTS, state="finished")
    page = ada.get(f"/runs/{run.pk}/")
    assert len(gzip.compress(page.content)) < MOST
    series_shown = json.loads(text_of(page, "#run-page"))["series"]
    assert series_shown.keys() >= {*KEYS}
    for number, key in enumerate(KEYS):
        last = np.sin((POINTS - 1) / 1000) + np.random.default_rng(number).normal(0, 0.1, POINTS)[-1]
        assert series_shown[key]["values"][-1] == pytest.approx(last, rel=1e-4)
        assert len(series_shown[key]["values"]) > 500 or key.startswith("rollout/")


def line(run: Run, message: str, **fields: Any) -> None:
    """Store a line of the run's log."""
    given = {"attempt": 1, "cursor": 0, "time": timezone.now(), "level": "info", "source": "driver"} | fields
    LogLine.objects.create(run=run, message=message, **given)


def test_level_shows_lines_of_this_level_and_above(ada: Client, run: Run) -> None:
    for level in LEVELS:
        line(run, f"line of {level}", level=level)
    page = ada.get(f"/runs/{run.pk}/logs/", {"level": "warning"}).content.decode()
    shown = [level for level in LEVELS if f"line of {level}" in page]
    assert shown == ["warning", "error"]


def test_lines_of_a_source_are_chosen_by_the_address(ada: Client, run: Run) -> None:
    for number in range(3):
        for source in ("environment-0", "driver"):
            line(run, f"{source} {number}", source=source, level="output")
    page = ada.get(f"/runs/{run.pk}/logs/", {"source": "environment-0", "q": "T 1"}).content.decode()
    assert "environment-0 1" not in page
    page = ada.get(f"/runs/{run.pk}/logs/", {"source": "environment-0", "q": "0 1"}).content.decode()
    assert "environment-0 1</span>" in page and "environment-0 2</span>" not in page
    assert '<option value="environment-0" selected>' in page and '<option value="driver">' in page
    assert log_sources(run) == ["driver", "environment-0"]
    unknown = ada.get(f"/runs/{run.pk}/logs/", {"source": "nobody"}).content.decode()
    assert "No line matches these filters." in unknown and '<option value="nobody" selected>' in unknown


NAMES = [f"{section}/layer_{number}/norm" for section in ("beta", "alpha", "eval") for number in range(20)]


def fill(run: Run, names: list[str]) -> Run:
    Series.objects.bulk_create(Series(run=run, key=key) for key in names)
    run.series_count = len(names)
    run.save()
    return run


@pytest.fixture
def wide(run: Run, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Metrics in three sections, more than a page shows."""
    monkeypatch.setattr(charts_module, "MOST_SHOWN", 20)
    monkeypatch.setattr(views, "MOST_SHOWN", 20)
    monkeypatch.setattr(charts_module, "WINDOW", 25)
    return fill(run, [*NAMES, "alone"])


def charts(page: Any) -> list[str]:
    return [
        line.key for section in page.context["sections"] for panel in section.panels for line in panel.lines
    ]


@pytest.mark.parametrize(
    "query, matching, shown",
    [
        ({}, 61, 25), ({"section": "beta"}, 20, 20), ({"q": "LAYER_1 beta"}, 11, 11), ({"q": "none"}, 0, 0), ({"q": "r_1%"}, 0, 0),
        ({"q": "layer_(1|2)/norm$", "regex": "1"}, 6, 6), ({"section": "other"}, 1, 1), ({"q": "a_one"}, 0, 0),
    ],
)  # fmt: skip
def test_a_part_is_chosen_by_section_and_words(
    wide: Run, ada: Client, query: dict[str, str], matching: int, shown: int
) -> None:
    page = ada.get(f"/runs/{wide.pk}/curves/", query)
    part = page.context["part"]
    assert (part.matching, len(part.keys)) == (matching, shown)
    assert sorted(charts(page)) == sorted(part.keys)
    assert f"{matching} of 61 metrics match" in page.content.decode()
    assert ("No metric matches" in page.content.decode()) == (not matching)


def test_the_parts_together_have_each_metric_once(wide: Run, ada: Client) -> None:
    after, found = "", []
    for _ in range(3):
        page = ada.get(f"/runs/{wide.pk}/curves/", {"after": after, "part": "charts"})
        specs = json.loads(elements(page, "#part-charts")[0].content)
        found += page.context["part"].keys
        assert [line["key"] for spec in specs for line in spec["lines"]] == charts(page)
        after = elements(page, "[data-part]")[0]["data-after"]
    assert after == "" and sorted(found) == sorted([*NAMES, "alone"])
    assert found[0].startswith("eval/"), "known sections are first"


def test_an_invalid_expression_is_reported(wide: Run, ada: Client) -> None:
    page = ada.get(f"/runs/{wide.pk}/curves/", {"q": "layer_(", "regex": "1", "part": "charts"})
    assert "invalid regular expression" in elements(page, "[data-part]")[0]["data-error"]


def test_a_page_without_scripts_continues_a_regular_expression(wide: Run, ada: Client) -> None:
    page = ada.get(f"/runs/{wide.pk}/curves/", {"q": "norm|one", "regex": "1"}).content.decode()
    assert 'data-charts-more href="?q=norm%7Cone&amp;regex=1&amp;after=' in page
    assert '<input type="hidden" name="regex" value="1">' in page
    wrong = ada.get(f"/runs/{wide.pk}/curves/", {"q": "layer_(", "regex": "1"}).content.decode()
    assert "not balanced. Correct the expression, or search by words.</p>" in wrong


def test_a_part_does_not_report_the_other_metrics_as_new(wide: Run, ada: Client) -> None:
    page = ada.get(f"/runs/{wide.pk}/curves/")
    assert not json.loads(elements(page, "#run-page")[0].content)["whole"]
    assert "No numbers yet" not in page.content.decode()


def test_a_chart_of_many_metrics_has_its_page(wide: Run, ada: Client) -> None:
    for chart, status in (
        ("beta-layer_7norm", 200),
        ("other-alone", 200),
        ("beta-layer_77norm", 404),
        ("success", 200),
    ):
        with CaptureQueriesContext(connection) as asked:
            assert ada.get(f"/runs/{wide.pk}/curves/{chart}/").status_code == status
        assert (
            status == 404
            or chart == "success"
            or not [query for query in asked if query["sql"].endswith('ORDER BY "metrics_series"."key" ASC')]
        ), "not all names are read"


def test_a_run_with_few_metrics_shows_all(wide: Run, ada: Client) -> None:
    Series.objects.filter(run=wide).exclude(key__startswith="alpha").delete()
    Run.objects.filter(pk=wide.pk).update(series_count=20)
    page = ada.get(f"/runs/{wide.pk}/curves/", {"q": "layer_3"})  # the browser searches
    assert len(page.context["part"].keys) == 20
    assert json.loads(elements(page, "#run-page")[0].content)["whole"], "new metrics are announced"
    assert "metrics match" not in page.content.decode()


@pytest.mark.extended
def test_pages_of_twenty_thousand_metrics_contain_what_is_shown(run: Run, ada: Client) -> None:
    fill(run, [f"part_{number % 20}/layer_{number}/norm" for number in range(20_000)])
    for address, most in (
        ("", 90_000),
        ("curves/", 160_000),
        ("curves/?q=layer_77&part=charts", 120_000),
        ("curves/part_1-layer_1norm/", 40_000),
    ):
        with CaptureQueriesContext(connection) as asked:
            page = ada.get(f"/runs/{run.pk}/{address}")
        assert page.status_code == 200 and len(page.content) < most, (address, len(page.content))
        assert len(asked) < 40 and page.content.count(b"layer_") < 10_000


def forked(parent: Run, at: int, name: str = "fork") -> Run:
    """A fork of a run."""
    fields = {name: getattr(parent, name) for name in ("project", "owner", "preset", "config")}
    return Run.objects.create(
        name=name, parent=parent, parent_iteration=at, iterations=120, iteration=at, **fields
    )


def told(run: Run, **series: list[tuple[int, float]]) -> None:
    """Store points of metrics; `__` in a name is a slash."""
    attempt = run.attempts.count() + 1
    Attempt.objects.create(run=run, number=attempt, state="live", submission_id=f"{run.pk}-{attempt}")
    story = Story(run.pk, attempt)
    events = [
        story.event("metrics", step=step, values={key.replace("__", "/"): value})
        for key, points in series.items()
        for step, value in points
    ]
    batch_store(run.pk, encoded(iter(events)), "")
    run.refresh_from_db()


def columns(*points: tuple[int, float | str]) -> dict[str, list[float | str | int]]:
    """The columns of a series."""
    return {"steps": [step for step, _ in points], "values": [value for _, value in points]}


def test_ancestors_lead_in_up_to_each_fork(run: Run, user: User) -> None:
    child = forked(run, 40, "child")
    grandchild = forked(child, 60)
    assert leads_of(user, run) == []
    assert [lead.label for lead in leads_of(user, grandchild)] == [
        "parent: child until iteration 60",
        f"ancestor: {run.name} until iteration 40",
    ]
    early = forked(child, 40)
    assert [lead.until for lead in leads_of(user, early)] == [40, 40]
    for _ in range(MOST_ANCESTORS):
        grandchild = forked(grandchild, 80)
    assert len(leads_of(user, grandchild)) == MOST_ANCESTORS


def test_parents_of_other_projects_and_visitors_are_not_shown(run: Run, user: User, ada: Client) -> None:
    fork = forked(run, 40)
    hidden = Project.objects.create(slug="hidden", name="Hidden")
    Run.objects.filter(pk=run.pk).update(project=hidden, name="secret parent")
    for page in ("", "curves/"):
        text = ada.get(f"/runs/{fork.pk}/{page}").content.decode()
        assert "secret parent" not in text and f"/runs/{run.pk}/" not in text, page
    Membership.objects.create(project=hidden, user=user, level=Membership.Level.VIEWER)
    assert [lead.run for lead in leads_of(user, fork)] == [run]
    assert leads_of(Visitor(fork.project, "run", fork.pk, [fork.pk, run.pk]), fork) == []


@pytest.mark.parametrize(
    ("latest", "expected"),
    [
        ((60, 0.75), (0.25, "parent at step 60")),
        ((65, 0.75), (0.25, "parent at step 60")),
        ((90, 0.75), (0.15, "parent's last, step 70")),
    ],
)
def test_values_are_compared_at_the_same_step(
    run: Run, latest: tuple[int, float], expected: tuple[float, str]
) -> None:
    told(run, eval__success=[(50, 0.1), (60, 0.5), (70, 0.6)])
    match = versus_parent(
        run, {"eval/success": columns((40, 0.2), latest, (95, "NaN"))}, ["eval/success", "x"]
    )
    assert list(match) == ["eval/success"]
    found = match["eval/success"]
    assert (pytest.approx(found.change), found.reference) == expected


def test_replaced_points_of_the_parent_are_not_compared(run: Run) -> None:
    told(run, eval__success=[(50, 0.1), (60, 0.9), (80, 0.9)])
    told(run, eval__success=[(60, 0.5), (70, 0.6)])
    match = versus_parent(run, {"eval/success": columns((90, 0.7))}, ["eval/success"])["eval/success"]
    assert (match.value, match.reference) == (0.6, "parent's last, step 70")
    assert versus_parent(run, {"eval/success": columns((40, 0.7))}, ["eval/success"]) == {}


def test_tiles_of_a_fork_state_the_difference_from_its_parent(run: Run, ada: Client) -> None:
    told(run, eval__success=[(50, 0.25), (60, 0.5)])
    fork = forked(run, 50)
    told(fork, eval__success=[(50, 0.25), (60, 0.75)])
    text = ada.get(f"/runs/{fork.pk}/").content.decode()
    [said] = filter(None, texts_of(text, "[data-versus]"))
    assert said == "+0.25 vs parent at step 60"
    assert "data-versus" not in ada.get(f"/runs/{run.pk}/").content.decode()
