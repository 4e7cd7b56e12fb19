"""The same prompt over training: strips, differences, their pages and API."""

from typing import Any

import pytest
from django.test import Client

from tests.webapp.elements import texts_of
from tests.webapp.transcripts.test_episodes import candidate, played, turn
from webapp.runs.models import Run
from webapp.transcripts import probes
from webapp.transcripts.models import Episode
from webapp.transcripts.probes import difference, parts_differ, strips_read
from webapp.transcripts.services import episodes_store


def said(text: str, saw: str = "goal 2 right") -> list[dict[str, Any]]:
    return [
        turn(0, "planner") | {"candidates": [candidate(text)], "messages": [{"role": "user", "content": saw}]}
    ]


@pytest.fixture
def plays(run: Run) -> list[Episode]:
    """A probe at three evaluations, another task once, a training episode of the probe's task."""
    probe = {"kind": "eval", "probe": True, "task": "p"}
    episodes_store(
        run,
        1,
        [
            played("late", iteration=20, turns=said("right right"), **probe),
            played("first", iteration=0, turns=said("up <up>", "goal 3 right"), **probe),
            played("second", iteration=10, turns=said("right up"), **probe),
            played("other", iteration=0, kind="eval", task="a"),
            played("train", iteration=5, task="p"),
        ],
    )  # fmt: skip
    return [Episode.objects.get(name=name) for name in ("first", "second", "late")]


def test_a_strip_has_all_plays_in_order(run: Run, plays: list[Episode]) -> None:
    strips, more = strips_read(run)
    assert [strip.task for strip in strips] == ["p", "a"] and not more, "probes first"
    assert [frame.episode.name for frame in strips[0].frames] == ["first", "second", "late"]
    assert [frame.lines for frame in strips[0].frames][1:] == [
        [("planner", "right up")],
        [("planner", "right right")],
    ]
    assert [frame.before for frame in strips[0].frames] == [None, plays[0].pk, plays[1].pk]
    assert strips_read(run, "eval_sampled") == ([], False)
    assert [strip.task for strip in strips_read(run, task="a")[0]] == ["a"]


def test_of_many_plays_the_first_and_the_last_are_shown(
    run: Run, plays: list[Episode], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(probes, "FRAMES", 2)
    monkeypatch.setattr(probes, "TASKS", 1)
    (strip,), more = strips_read(run)
    assert [frame.episode.name for frame in strip.frames] == ["first", "late"] and strip.plays == 3 and more
    assert [strip.task for strip in strips_read(run, page=1)[0]] == ["a"]


def test_turns_that_a_frame_leaves_out_are_counted(
    run: Run, plays: list[Episode], ada: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert [frame.more_turns for frame in strips_read(run)[0][0].frames] == [0, 0, 0]
    monkeypatch.setattr(probes, "LINES", 0)
    assert [frame.more_turns for frame in strips_read(run)[0][0].frames] == [1, 1, 1]
    assert "+ 1 more turn</dd>" in ada.get(f"/runs/{run.pk}/probes/").content.decode()


def test_differences_word_by_word(plays: list[Episode]) -> None:
    (one,) = difference(plays[1], plays[2])
    assert one["said"] == [
        {"op": "equal", "text": "right "}, {"op": "delete", "text": "up"}, {"op": "insert", "text": "right"},
    ]  # fmt: skip
    assert one["saw"] == [{"op": "equal", "text": "goal 2 right"}] and not one["same"]
    assert difference(plays[1], plays[1])[0]["same"]


def test_an_episode_with_more_turns_or_without_its_body(run: Run, plays: list[Episode]) -> None:
    episodes_store(run, 2, [played("longer", turns=[*said("right up"), turn(1, "executor")])])
    longer = Episode.objects.get(name="longer")
    turns = difference(plays[1], longer)
    assert turns[1]["role"] == "executor" and {part["op"] for part in turns[1]["said"]} == {"insert"}
    longer.body.delete()
    assert {part["op"] for part in difference(plays[1], longer)[0]["said"]} == {"delete"}


@pytest.mark.parametrize(
    ("left", "right"), [("", ""), ("a b", ""), ("a  b\nc", "a b\nc d"), ("x " * 5000, "x " * 5000 + "y"), ("é<b>", "e<b>")]
)  # fmt: skip
def test_parts_make_up_both_texts(left: str, right: str) -> None:
    parts = parts_differ(left, right)
    assert "".join(part["text"] for part in parts if part["op"] != "insert") == left
    assert "".join(part["text"] for part in parts if part["op"] != "delete") == right


def test_pages_and_api(ada: Client, run: Run, plays: list[Episode]) -> None:
    html = ada.get(f"/runs/{run.pk}/probes/").content.decode()
    assert "up &lt;up&gt;" in html and "compare first and last" in html
    address = f"/runs/{run.pk}/episodes/{plays[2].pk}/diff/"
    page = ada.get(address, {"other": plays[0].pk})
    assert "<up>" in texts_of(page, "del") and "right" in texts_of(page, "ins"), "the earlier one first"
    told = ada.get(f"/api/v1/runs/{run.pk}/probes/").json()["results"][0]
    assert [play["iteration"] for play in told["plays"]] == [0, 10, 20]
    api = f"/api/v1/episodes/{plays[0].pk}/diff/{plays[1].pk}/"
    assert ada.get(api).json()["turns"][0]["role"] == "planner"
