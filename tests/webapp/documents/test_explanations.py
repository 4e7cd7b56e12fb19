"""Every metric and every rule has an explanation."""

import json

import pytest
from django.test import Client

from tests.architecture.source import ROOT
from tests.end_to_end.seed import Story
from webapp.agents.registry import AGENT_PAGES
from webapp.documents.explanations import explanation
from webapp.health.rules import RULES
from webapp.run_pages.charts import UNITS
from webapp.run_pages.layouts import CHARTS


def golden_metrics() -> set[str]:
    """Metrics of all golden runs."""
    files = (ROOT / "tests/golden/curves").glob("*.json")
    return {name for file in files for name in json.loads(file.read_text())["metrics"]}


def seeded_metrics() -> set[str]:
    """Metrics of the demonstration that fills pages in tests."""
    return {
        name
        for event in Story("a").iterations(0, 2)
        if event["type"] == "metrics"
        for name in event["values"]
    }


def shown_metrics() -> set[str]:
    """Metrics of charts and tiles."""
    tiles = {
        figure.metric for pages in AGENT_PAGES.values() for tile in pages.tiles for figure in tile.figures
    }
    names = tiles | {line[0] for chart in CHARTS.values() for line in chart.lines}
    return {name.replace("{", "").replace("}", "") for name in names}


def test_every_reported_metric_has_an_explanation() -> None:
    names = golden_metrics() | seeded_metrics() | shown_metrics()
    assert len(names) > 150
    assert [name for name in sorted(names) if explanation("metric", name) is None] == []


def test_every_metric_with_a_unit_has_an_explanation() -> None:
    text = (ROOT / "docs/metrics.md").read_text().replace("gpu<index>_", "gpu_")
    units = set(UNITS).union(*(pages.units for pages in AGENT_PAGES.values()))
    assert [name for name in sorted(units) if f"/{name}`" not in text] == []


@pytest.mark.parametrize("rule", RULES)
def test_every_rule_has_an_explanation(rule: str) -> None:
    assert explanation("rule", rule), f"docs/health.md has no row for {rule}"


@pytest.mark.django_db
def test_the_text_of_a_button_links_to_the_documentation(client: Client, user: object) -> None:
    client.force_login(user)  # type: ignore[arg-type]
    text = client.get("/docs/explain/metric/", {"name": ["policy/a/kl", "policy/b/kl"]}).content.decode()
    assert text.count("<dl>") == 1 and 'href="/docs/metrics/#policies--policypolicykl"' in text
    text = client.get("/docs/explain/metric/", {"name": "<b>own"}).content.decode()
    assert "own program" in text and "<b>own" not in text
    assert client.get("/docs/explain/rule/", {"name": "staleness"}).status_code == 200
    assert client.get("/docs/explain/weather/").status_code == 404
