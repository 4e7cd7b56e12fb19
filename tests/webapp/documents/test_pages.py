"""The documents of the site: every page renders, every link and anchor leads somewhere; search and explanations."""

import json
import re

import pytest
from django.test import Client

from tests.architecture.source import ROOT
from tests.end_to_end.seed import Story
from training_core.config.files import load_config, preset_names
from webapp.agents.registry import AGENT_PAGES
from webapp.documents.rendering import EXAMPLE_ORIGIN, document_get, page_address, page_paths
from webapp.documents.search import search
from webapp.documents.views import explanation
from webapp.experiments.fields import config_sections
from webapp.experiments.forms import draft_make
from webapp.health.rules import RULES
from webapp.run_pages.charts import CHARTS, UNITS
from webapp.run_table.columns import EXPLAINED
from webapp.transcripts.table import EXPLAINED as EXPLAINED_EPISODES

pytestmark = pytest.mark.django_db


ANCHOR = re.compile(r'href="(/docs/(?:[\w-]+/)?)?(?:#([^"]+))?"')


@pytest.fixture
def reader(client: Client, user: object) -> Client:
    """A person with an account."""
    client.force_login(user)  # type: ignore[arg-type]
    return client


def ids(slug: str) -> set[str]:
    document = document_get(slug)
    assert document
    return set(re.findall(r' id="([^"]+)"', document.html))


@pytest.mark.parametrize("slug", page_paths())
def test_links_and_images_of_a_page_lead_somewhere(slug: str, reader: Client) -> None:
    document = document_get(slug)
    assert document and document.title
    slugs = {page_address(other): other for other in page_paths()}
    for address, anchor in ANCHOR.findall(document.html):
        target = slugs[address] if address else slug
        assert not anchor or anchor in ids(target), f"{slug} links to {address}#{anchor}"
    for source in re.findall(r'(?:src|srcset)="([^"]+)"', document.html):
        assert reader.get(source).status_code == 200, source
    assert not re.findall(r'href="(?!https?:|/docs/|#|mailto:)[^"]*"', document.html)


def test_every_page_answers_with_its_headings(reader: Client) -> None:
    for slug in page_paths():
        answer = reader.get(page_address(slug))
        assert answer.status_code == 200
        found = answer.content.decode()
        assert found.count("<h1") == 1
        assert all(
            f'href="#{heading.anchor}"' in found
            for heading in answer.context["document"].headings
            if heading.level < 4
        )
    assert reader.get("/docs/no-such-page/").status_code == 404
    assert reader.get("/docs/images/../pages.py").status_code == 404


def test_examples_name_this_server(reader: Client) -> None:
    text = reader.get("/docs/getting-started/", HTTP_HOST="localhost:8765").content.decode()
    assert "http://localhost:8765/api/v1/runs/" in text
    assert EXAMPLE_ORIGIN not in text


def test_links_of_templates_name_pages_and_anchors() -> None:
    used = {
        match
        for path in (ROOT / "templates").rglob("*.html")
        for match in re.findall(r'\{% docs_link "([\w-]+)"(?: "([\w-]+)")?', path.read_text())
    }
    assert len(used) > 8
    for slug, anchor in used:
        assert slug in page_paths() and (not anchor or anchor in ids(slug))


@pytest.mark.parametrize("preset", preset_names())
def test_sections_of_the_form_have_a_place_in_the_reference(preset: str) -> None:
    known = ids("configuration")
    waiting = list(draft_make(preset, {}).sections)
    for section in waiting:
        waiting += section.sections
        assert section.docs in known or not section.fields, section.path


def test_a_heading_comes_before_a_mention() -> None:
    hits = search("damaged checkpoints")
    assert hits[0].heading == "Resume, and damaged checkpoints"
    assert hits[0].address.startswith("/docs/checkpoints/#")


def test_every_word_must_occur() -> None:
    assert search("hysteresis")
    assert search("hysteresis harbourmaster") == []
    assert search("") == search("?!") == []


def test_fields_metrics_and_rules_are_found_by_name() -> None:
    for query, address in (
        ("clip_low", "/docs/configuration/#algorithm-"),
        ("entropy_collapse", "/docs/health/#rules--entropy_collapse"),
        ("policy/<policy>/kl", "/docs/metrics/#policies--policypolicykl"),
        ("TROUPE_IMPORT_PACKAGES", "/docs/"),
    ):
        assert any(hit.address.startswith(address) for hit in search(query)[:3]), query


def test_equal_rows_of_several_sections_are_one_hit() -> None:
    hits = search("clip_low")
    assert len({(hit.heading, hit.excerpt) for hit in hits}) == len(hits)


def test_results_show_heading_and_marked_excerpt(ada: Client) -> None:
    text = ada.get("/docs/", {"q": "harbourmaster <script>"}).content.decode()
    assert "No passage contains all these words" in text and "<script>" not in text.split("<main")[1]
    text = ada.get("/docs/", {"q": "hysteresis"}).content.decode()
    assert "<mark>hysteresis</mark>" in text and 'value="hysteresis"' in text


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
    text = (ROOT / "docs/reference/metrics.md").read_text().replace("gpu<index>_", "gpu_")
    units = set(UNITS).union(*(pages.units for pages in AGENT_PAGES.values()))
    assert [name for name in sorted(units) if f"/{name}`" not in text] == []


@pytest.mark.parametrize("rule", RULES)
def test_every_rule_has_an_explanation(rule: str) -> None:
    assert explanation("rule", rule), f"docs/use/health.md has no row for {rule}"


@pytest.mark.parametrize("preset", ["plan_path_duo", "multi_turn_math", "spread_mappo"])
def test_every_field_of_the_form_has_an_explanation(preset: str) -> None:
    config = load_config(preset)
    sections = config_sections(config.model_dump(mode="json"), {}, {})
    fields = [field for section in sections for field in section.walk()]
    assert len(fields) > 60
    assert [field.path for field in fields if explanation("field", field.docs) is None] == []


def test_every_column_with_a_question_mark_has_an_explanation() -> None:
    source = "\n".join(path.read_text() for path in (ROOT / "templates").rglob("*.html"))
    anchors = set(re.findall(r"\b(?:runs|episodes|checkpoints|timeline|comparison)--[a-z0-9-]+", source))
    for section, columns in re.findall(r'table_head "@(\w+)"(.*?)%}', source):
        anchors |= {f"{section}--{term}" for term in re.findall(r'"[^"|]+\|[^"|]*\|([^"|]+)"', columns)}
    anchors |= {f"runs--{name}" for name in EXPLAINED.values()} | {
        f"episodes--{word}" for word in EXPLAINED_EPISODES
    }
    assert len(anchors) > 25
    assert [name for name in sorted(anchors) if explanation("column", name) is None] == []


def test_the_text_of_a_button_links_to_the_documentation(ada: Client) -> None:
    text = ada.get("/docs/explain/metric/", {"name": ["policy/a/kl", "policy/b/kl"]}).content.decode()
    assert text.count("<dl>") == 1 and 'href="/docs/metrics/#policies--policypolicykl"' in text
    text = ada.get("/docs/explain/metric/", {"name": "<b>own"}).content.decode()
    assert "own program" in text and "<b>own" not in text
    assert ada.get("/docs/explain/rule/", {"name": "staleness"}).status_code == 200
    field = ada.get("/docs/explain/field/", {"name": "run--seed"}).content.decode()
    assert "Seed of tasks" in field and 'href="/docs/configuration/#run--seed"' in field
    assert "bootstrap" in ada.get("/docs/explain/column/", {"name": "comparison--95-of-iqm"}).content.decode()
    assert ada.get("/docs/explain/weather/").status_code == 404


HEAD = re.compile(r"{% table_head (.*?) %}")
PLAIN = {
    "run", "state", "owner", "project", "name", "iteration", "iterations", "started", "launched", "created", "changed", "saved", "by",
    "job", "checkpoint", "model", "licence", "policy", "roles", "worker", "waits", "episode", "task", "group", "sweep", "artifact", "file",
    "size", "CPU cores", "GPUs", "report", "version", "node", "person", "user", "when", "action", "target", "details", "event", "message",
    "kind", "address", "last sent", "last used", "expires", "shows", "created by", "your level", "answer", "local", "team", "reward",
    "advantage", "value",
}  # fmt: skip
"""Headings that need no explanation; the rewards of candidates are explained once, on the page of the group."""


def heads() -> list[tuple[str, str, str, str]]:
    """(template, section, label, term) of every column of a table head; columns with a label from the page are left out."""
    columns = []
    for template in sorted((ROOT / "templates").rglob("*.html")):
        for head in HEAD.findall(template.read_text()):
            words = re.findall(r'"([^"]*)"', head)
            section = next((word[1:] for word in words if word.startswith("@")), "")
            for word in words:
                label, style, term = (*word.split("|"), "", "")[:3]
                if label and not word.startswith("@") and style != "hidden":
                    columns.append((template.name, section, label, term))
    return columns


def test_every_column_of_a_table_is_explained_or_plain() -> None:
    unexplained = [
        f"{template}: {label}" for template, _, label, term in heads() if not term and label.lower() not in
        {plain.lower() for plain in PLAIN}
    ]  # fmt: skip
    missing = [
        f"{template}: {section}--{term}"
        for template, section, _, term in heads()
        if term and not explanation("column", f"{section}--{term}")
    ]
    forgotten = [  # the page has a row, but the head has no "?"
        f"{template}: {label}"
        for template, section, label, term in heads()
        if section and not term and explanation("column", f"{section}--{label.lower().replace(' ', '-')}")
    ]
    assert len(heads()) > 100 and not unexplained + missing + forgotten, (unexplained, missing, forgotten)
