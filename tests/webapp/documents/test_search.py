"""The search of the documentation."""

import pytest
from django.test import Client

from webapp.documents.search import search


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


@pytest.mark.django_db
def test_results_show_heading_and_marked_excerpt(client: Client, user: object) -> None:
    client.force_login(user)  # type: ignore[arg-type]
    text = client.get("/docs/", {"q": "harbourmaster <script>"}).content.decode()
    assert "No passage contains all these words" in text and "<script>" not in text.split("<main")[1]
    text = client.get("/docs/", {"q": "hysteresis"}).content.decode()
    assert "<mark>hysteresis</mark>" in text and 'value="hysteresis"' in text
