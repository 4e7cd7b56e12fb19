"""The documentation inside the product: every page renders, every link and anchor leads somewhere, nobody reads it without login."""

import re

import pytest
from django.test import Client

from tests.architecture.source import ROOT
from training_core.config.files import preset_names
from webapp.documents.rendering import EXAMPLE_ORIGIN, document_get, page_address, page_paths
from webapp.experiments.forms import draft_make

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


def test_reading_needs_a_login(client: Client) -> None:
    for address in (
        "/docs/",
        "/docs/health/",
        "/docs/images/spread-curves.svg",
        "/docs/explain/metric/?name=train/return",
    ):
        assert client.get(address).status_code == 302


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
