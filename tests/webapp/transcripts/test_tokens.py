"""Tokens and boards of answers, read some at a time; what agents and tasks bring stays text on every page."""

from html.parser import HTMLParser
from typing import Any

import pytest
from django.http import Http404
from django.test import Client

from tests.webapp.transcripts.test_episodes import candidate, learnt, played, turn
from webapp.runs.models import Run
from webapp.transcripts.candidates import tokens_read
from webapp.transcripts.episode_views import stretches
from webapp.transcripts.models import Episode
from webapp.transcripts.services import annotations_store, episodes_store


def answer(length: int) -> dict[str, Any]:
    arrays = {
        "tokens": [f"t{n}" for n in range(length)], "token_ids": [n + 7 for n in range(length)],
        "logprobs": [-0.5 - n for n in range(length)], "versions": [3] * length,
    }  # fmt: skip
    return candidate("long", **arrays)


@pytest.fixture
def episode(run: Run) -> Episode:
    turns = [turn(0, "planner") | {"candidates": [answer(2), answer(5)], "executed": 1, "prompt_ids": [1, 4]}]
    episodes_store(run, 1, [played("a", turns=turns)])
    return Episode.objects.get()


def test_what_is_known_of_tokens_by_hand(run: Run, episode: Episode) -> None:
    bare = tokens_read(episode, 1, 0)
    assert bare == {
        "turn": 1, "candidate": 0, "executed": 1, "count": 2, "from": 0, "advantage": None, "prompt_ids": [1, 4],
        "tokens": ["t0", "t1"], "token_ids": [7, 8], "logprobs": [-0.5, -1.5], "versions": [3, 3],
    }  # fmt: skip
    note = {
        "turn": 0, "advantages": [0.7, -0.7], "ratios": [[1.0, 1.1], [1.0] * 5], "entropies": [[0.2, 0.3], [0.1] * 5],
        "training_logprobs": [[-0.25, "-Infinity"], [-1.0] * 5],
    }  # fmt: skip
    annotations_store(run, 2, [learnt("a", note)])
    found = tokens_read(episode, 1, 0)
    assert found["mismatch"] == [0.25, "-Infinity"], "-0.25 - -0.5"
    assert (found["advantage"], found["ratios"], found["entropies"]) == (0.7, [1.0, 1.1], [0.2, 0.3])
    assert found["masks"] == [1, 1], "the update learnt from all"
    annotations_store(run, 3, [learnt("a", {"turn": 0, "advantages": [0.7, -0.7], "masks": [[0, 1]]})])
    assert tokens_read(episode, 1, 0)["masks"] == [0, 1]


def test_some_at_a_time(episode: Episode) -> None:
    assert tokens_read(episode, 1)["candidate"] == 1, "the one carried on"
    part = tokens_read(episode, 1, 1, first=3, most=10)
    assert (part["from"], part["count"]) == (3, 5)
    assert (part["token_ids"], part["logprobs"]) == ([10, 11], [-3.5, -4.5])
    for number, place in ((1, 2), (1, -1), (2, 0), (0, 0)):
        with pytest.raises(Http404):
            tokens_read(episode, number, place)


def test_by_rest(ada: Client, episode: Episode) -> None:
    address = f"/api/v1/episodes/{episode.pk}/turns/1/tokens/"
    assert ada.get(address).json()["candidate"] == 1
    assert ada.get(address, {"candidate": 1, "from": 1, "limit": 1}).json()["token_ids"] == [8]


def test_a_long_transcript_comes_in_pieces(ada: Client, run: Run) -> None:
    board = {"kind": "grid", "rows": 1, "columns": 9, "cells": []}
    turns = [
        turn(n, "planner") | {"candidates": [candidate(f"answer {n + 1} of many")], "board": board | {"rows": n + 1}}
        for n in range(120)
    ]  # fmt: skip
    episodes_store(run, 1, [played("a", turns=turns, final_board=board)])
    pk = Episode.objects.get().pk
    address = f"/runs/{run.pk}/episodes/{pk}/"
    html = ada.get(address).content.decode()
    assert html.count('class="turn"') == 50 and "answer 50 of many" in html
    assert "answer 51 of many" not in html
    assert 'href="?start=51"' in html
    middle = ada.get(address, {"start": 77}).content.decode()
    assert 'id="turn-51"' in middle and 'id="turn-100"' in middle and 'href="?start=1"' in middle
    part = ada.get(address, {"part": "turns", "start": 101}).content.decode()
    assert part.count('class="turn"') == 20 and "<html" not in part
    assert "answer 120 of many" in part and "&lt;script&gt;x&lt;/script&gt;" in part
    boards = ada.get(f"/api/v1/episodes/{pk}/boards/", {"from": 101, "limit": 50}).json()
    assert [each["rows"] for each in boards["boards"]] == list(range(101, 121))
    assert boards["final_board"] == board


@pytest.mark.parametrize(
    ("text", "tokens", "masks", "wanted"),
    [
        ("up left", ["up", "left"], [1, 1], []),
        ("up left", ["up", "left"], None, []),
        ("up", ["up", "<end>"], [1, 0], [("up", True)]),
        ("up left", ["up", "left"], [1, 0], [("up", True), (" left", False)]),
        ("a b\nc a!", ["a", " b", "<end>", "\n", "c", " a", "!"], [1, 1, 1, 0, 0, 1, 1],
         [("a b", True), ("\nc", False), (" a!", True)]),
        ("né t", ["n", "\ufffd", "\ufffd", " t"], [1, 1, 1, 0], [("n", True), ("é t", False)]),
        ("", ["<end>"], [0], []),
    ],
)  # fmt: skip
def test_text_in_stretches_that_were_learnt_from(
    text: str, tokens: list[str], masks: list[int] | None, wanted: list[tuple[str, bool]]
) -> None:
    said = {"text": text, "tokens": tokens} | ({} if masks is None else {"masks": masks})
    assert [(each["text"], each["learnt"]) for each in stretches(said)] == wanted


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
def test_pages_show_it_as_text(ada: Client, run: Run, attack: str) -> None:
    text = ATTACKS[attack]
    episodes_store(run, 1, [attacked(text, "a"), attacked(text + " again", "b")])
    one, other = Episode.objects.order_by("pk")
    at = f"/runs/{run.pk}"
    for address in (
        f"{at}/transcripts/", f"{at}/transcripts/?q=hacked", f"{at}/transcripts/?part=rows",
        f"{at}/episodes/{one.pk}/", f"{at}/episodes/{one.pk}/?part=turns", f"{at}/episodes/{one.pk}/tree/",
        f"{at}/probes/", f"{at}/episodes/{one.pk}/diff/?other={other.pk}", f"{at}/transcripts/?task={text[:80]}",
    ):  # fmt: skip
        answer = ada.get(address)
        html = answer.content.decode()
        assert answer.status_code == 200, address
        found = Elements()
        found.feed(html)
        assert not {"onfocus", "onerror", "onload", "autofocus"} & found.attributes, address
        assert not found.inline, address
        assert "<!--<script>" not in html and "14</textarea>" not in html, address
    assert text not in html or attack == "turning"
