"""A run with many metrics shows a part of its charts, and finds the others by section and words."""

import json

import pytest
from django.test import Client

from tests.webapp.elements import elements
from webapp.accounts.models import User
from webapp.metrics.models import Series
from webapp.run_pages import wide_runs
from webapp.runs.models import Run


@pytest.fixture
def wide(run: Run, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Forty metrics in two sections, twice as many as a page shows."""
    monkeypatch.setattr(wide_runs, "MOST", 20)
    keys = [f"{section}/layer_{number}/norm" for section in ("alpha", "beta") for number in range(20)]
    Series.objects.bulk_create(Series(run=run, key=key) for key in keys)
    return run


@pytest.mark.parametrize(
    "query, matching, shown",
    [({}, 40, 20), ({"section": "beta"}, 20, 20), ({"q": "LAYER_1 beta"}, 11, 11), ({"q": "none"}, 0, 0)],
)
def test_a_part_is_chosen_by_section_and_words(
    wide: Run, client: Client, user: User, query: dict[str, str], matching: int, shown: int
) -> None:
    client.force_login(user)
    page = client.get(f"/runs/{wide.pk}/curves/", query)
    part = page.context["part"]
    assert (part.matching, len(part.keys), page.context["keys_total"]) == (matching, shown, 40)
    charts = [
        line.key for section in page.context["sections"] for panel in section.panels for line in panel.lines
    ]
    assert sorted(charts) == sorted(part.keys)
    assert "matching metrics are shown" in page.content.decode()


@pytest.mark.parametrize("query", [{}, {"q": "none"}])
def test_a_part_does_not_report_the_other_metrics_as_new(
    wide: Run, client: Client, user: User, query: dict[str, str]
) -> None:
    client.force_login(user)
    page = client.get(f"/runs/{wide.pk}/curves/", query)
    assert not json.loads(elements(page, "#run-page")[0].content)["whole"]
    assert ("No metric matches" in page.content.decode()) == bool(query)
    assert "No numbers yet" not in page.content.decode()


def test_a_regular_expression_of_the_browser_limits_no_part(wide: Run, client: Client, user: User) -> None:
    client.force_login(user)
    page = client.get(f"/runs/{wide.pk}/curves/", {"q": "layer_(1|2)/norm$", "regex": "1"})
    assert page.context["part"].matching == 40
    fields = elements(page, "input[name=q]")
    assert [field["value"] for field in fields] == [""], "the search over all metrics is by words"


def test_a_run_with_few_metrics_shows_all(wide: Run, client: Client, user: User) -> None:
    Series.objects.filter(run=wide, key__startswith="beta").delete()
    client.force_login(user)
    page = client.get(f"/runs/{wide.pk}/curves/", {"q": "layer_3"})  # the browser searches
    assert len(page.context["part"].keys) == 20
    assert json.loads(elements(page, "#run-page")[0].content)["whole"], "new metrics are announced"
    assert "matching metrics are shown" not in page.content.decode()
