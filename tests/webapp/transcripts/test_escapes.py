"""What agents and tasks bring stays text on every page that shows it: tags, ends of attributes, characters that turn or control."""

from html.parser import HTMLParser
from typing import Any

import pytest
from django.test import Client

from tests.webapp.transcripts.test_episodes import candidate, played, turn
from webapp.accounts.models import User
from webapp.runs.models import Run
from webapp.transcripts.models import Episode
from webapp.transcripts.services import episodes_store

ATTACKS = {
    "script": "<script>window.hacked = 1</script>",
    "attribute": '"\' autofocus onfocus=window.hacked=1 x="><img src=x onerror=window.hacked=1>',
    "template": "{{ 7|add:7 }}{% load x %}</textarea></title><svg onload=window.hacked=1>",
    "json": "</script><!--<script>\u2028alert(1)",
    "turning": "\u202egnihtyreve\u2066\u200f\u0000\u001b[2J\u0085"[:12].replace("\u0000", ""),
}
"""NUL never comes that far: PostgreSQL refuses it in facts."""


class Elements(HTMLParser):
    """Names of the attributes of a page, and its scripts that hold code."""

    def __init__(self) -> None:
        super().__init__()
        self.attributes: set[str] = set()
        self.inline: list[Any] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.attributes |= given.keys()
        if tag == "script" and "src" not in given and given.get("type") != "application/json":
            self.inline.append(attrs)


def attacked(text: str, name: str) -> Any:
    said = candidate(text, tokens=[text, text])
    turns = [
        turn(0, text[:40])
        | {"policy": text, "candidates": [said, said], "messages": [{"role": text, "content": text}]}
    ]
    facts = {"title": text[:200], "outcome": text[:200], "task": text[:200], "error": text}
    return played(name, kind="eval", probe=True, turns=turns, rewards={text[:40]: 1.0}, **facts)


@pytest.mark.parametrize("attack", ATTACKS)
def test_pages_show_it_as_text(client: Client, user: User, run: Run, attack: str) -> None:
    client.force_login(user)
    text = ATTACKS[attack]
    episodes_store(run, 1, [attacked(text, "a"), attacked(text + " again", "b")])
    one, other = Episode.objects.order_by("pk")
    at = f"/runs/{run.pk}"
    for address in (
        f"{at}/transcripts/", f"{at}/transcripts/?q=hacked", f"{at}/transcripts/?part=rows",
        f"{at}/episodes/{one.pk}/", f"{at}/episodes/{one.pk}/?part=turns", f"{at}/episodes/{one.pk}/tree/",
        f"{at}/probes/", f"{at}/episodes/{one.pk}/diff/?other={other.pk}", f"{at}/transcripts/?task={text[:80]}",
    ):  # fmt: skip
        answer = client.get(address)
        html = answer.content.decode()
        assert answer.status_code == 200, address
        found = Elements()
        found.feed(html)
        assert not {"onfocus", "onerror", "onload", "autofocus"} & found.attributes, address
        assert not found.inline, address
        assert "<!--<script>" not in html and "14</textarea>" not in html, address
    assert text not in html or attack == "turning"


def test_the_api_answers_with_data_and_never_with_a_page(client: Client, user: User, run: Run) -> None:
    client.force_login(user)
    episodes_store(run, 1, [attacked(ATTACKS["script"], "a")])
    pk = Episode.objects.get().pk
    for below in ("", "tree/", "groups/1/", "turns/1/tokens/", "boards/"):
        answer = client.get(f"/api/v1/episodes/{pk}/{below}")
        assert answer.headers["Content-Type"] == "application/json"
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
