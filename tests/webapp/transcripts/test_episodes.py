"""Episodes: facts, bodies in pieces, what updates learnt of them, thinning."""

import math
import random
from datetime import timedelta
from typing import Any

import orjson
import pytest
import zstandard
from django.db.models import BinaryField, Case, F, When
from django.http import Http404
from django.test import Client
from django.utils import timezone

from tests.webapp.elements import text_of
from training_core.config.files import load_config
from webapp.runs.models import Run
from webapp.transcripts import bodies
from webapp.transcripts.bodies import PIECE, episode_document, turn_get, turns_read, unpacked
from webapp.transcripts.models import Episode, EpisodeAnnotation, EpisodeBody
from webapp.transcripts.services import annotations_store, bodies_thin, episodes_store
from webapp.transcripts.tasks import thin
from workers.telemetry.events import EpisodeAnnotationEvent, EpisodeEvent


def answers(count: int) -> list[dict[str, Any]]:
    return [turn(n, "planner") | {"candidates": [candidate(f"answer {n + 1}")]} for n in range(count)]


@pytest.fixture(params=[bodies.SHORT, -1])
def _most_read_whole(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Data are read whole, or their part is read by a second query."""
    short = Case(When(length__lte=request.param, then=F("data")), output_field=BinaryField(null=True))
    monkeypatch.setattr(bodies, "_SHORT", short)


@pytest.mark.usefixtures("_most_read_whole")
@pytest.mark.parametrize("count", [0, 1, PIECE - 1, PIECE, PIECE + 1, 3 * PIECE, 3 * PIECE + 7])
def test_any_stretch_is_as_in_the_whole(run: Run, count: int) -> None:
    episodes_store(run, 1, [played("a", turns=answers(count), final_board={"kind": "grid", "rows": 2})])
    annotations_store(
        run,
        2,
        [learnt("a", *({"turn": n, "advantages": [float(n)], "masks": [[1, 0]]} for n in range(count)))],
    )
    episode = Episode.objects.get()
    whole = episode_document(episode)["turns"]
    assert len(whole) == count and all(each["candidates"][0]["masks"] == [1, 0] for each in whole)
    draw = random.Random(count)
    places = {0, 1, PIECE - 1, PIECE, count - 1, count, count + 5, draw.randrange(count + 1)}
    for first in sorted(place for place in places if place >= 0):
        for most in (1, PIECE, 2 * PIECE + 3):
            piece = turns_read(episode, first, most)
            assert piece.turns == whole[first : first + most], (first, most)
            assert piece.count == count
    assert turns_read(episode, 0, PIECE).final_board == {"kind": "grid", "rows": 2}
    assert turns_read(episode, max(0, count - 1), 1).final_board == {"kind": "grid", "rows": 2}


def test_only_the_pieces_that_are_asked_for_are_read(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    episodes_store(run, 1, [played("a", turns=answers(10 * PIECE))])
    seen: list[int] = []

    def counting(data: bytes) -> dict[str, Any]:
        seen.append(len(data))
        return unpacked(data)

    monkeypatch.setattr("webapp.transcripts.bodies.unpacked", counting)
    piece = turns_read(Episode.objects.get(), 4 * PIECE, PIECE)
    assert [each["index"] for each in piece.turns] == list(range(4 * PIECE, 5 * PIECE))
    assert len(seen) == 1 and seen[0] * 5 < EpisodeBody.objects.get().size


@pytest.mark.usefixtures("_most_read_whole")
def test_bodies_of_before_are_read_as_well(run: Run) -> None:
    episodes_store(run, 1, [played("a", turns=answers(130))])
    document = episode_document(Episode.objects.get())
    old = zstandard.compress(orjson.dumps({"turns": document["turns"], "final_board": None}))
    EpisodeBody.objects.update(data=old, size=len(old), frames=[])
    episode = Episode.objects.get()
    assert episode_document(episode) == document
    assert turns_read(episode, 100, 10).turns == document["turns"][100:110]
    assert turns_read(episode, 100, 10).count == 130


def test_one_answer(run: Run) -> None:
    episodes_store(run, 1, [played("a", turns=answers(60)), played("b", turns=answers(1))])
    episode, thinned = Episode.objects.order_by("pk")
    assert turn_get(episode, 57)["candidates"][0]["text"] == "answer 57"
    for number in (0, 61):
        with pytest.raises(Http404):
            turn_get(episode, number)
    thinned.body.delete()
    assert turns_read(thinned, 0, 10).count == 0
    with pytest.raises(Http404):
        turn_get(thinned, 1)


def test_notes_in_any_order_stand_at_their_turns(run: Run) -> None:
    episodes_store(run, 1, [played("a", turns=answers(170))])
    draw = random.Random(0)
    places = [*range(170), -3, 500, 60, 60]
    draw.shuffle(places)
    notes = [{"turn": place, "advantages": [place + order / 1000]} for order, place in enumerate(places)]
    annotations_store(run, 2, [learnt("a", *notes, stages={"consumed": 5.0})])
    annotations_store(run, 3, [learnt("a", {"turn": 140, "advantages": [-1.0]}), learnt("a")])
    episode = Episode.objects.get()
    document = episode_document(episode)
    last = {place: place + order / 1000 for order, place in enumerate(places)} | {140: -1.0}
    assert [each["candidates"][0]["advantage"] for each in document["turns"]] == [last[n] for n in range(170)]
    assert document["stages"] == {"consumed": 5.0}
    for first, most in ((0, 50), (50, 50), (59, 3), (139, 2), (150, 50), (160, 1)):
        assert turns_read(episode, first, most).turns == document["turns"][first : first + most]
    assert len(EpisodeAnnotation.objects.order_by("pk")[0].frames) == 4


@pytest.mark.usefixtures("_most_read_whole")
def test_annotations_of_before_are_read_as_well(run: Run) -> None:
    episodes_store(run, 1, [played("a", turns=answers(60))])
    old = zstandard.compress(orjson.dumps({"turns": [{"turn": 55, "advantages": [2.0]}], "stages": {}}))
    EpisodeAnnotation.objects.create(run=run, episode_name="a", attempt=1, cursor=2, data=old)
    episode = Episode.objects.get()
    assert turns_read(episode, 55, 1).turns[0]["candidates"][0]["advantage"] == 2.0
    assert turns_read(episode, 0, 50).turns[0]["candidates"][0]["advantage"] is None


HEAD = {"run": "r", "attempt": 1, "producer": "p", "seq": 1, "time": 1000.0}


def candidate(text: str, **fields: Any) -> dict[str, Any]:
    base = {
        "text": text, "token_ids": [5, 6], "tokens": ["go", " up"], "logprobs": [-0.1, "-Infinity"],
        "versions": [3, 3], "stop_reason": "stop", "local_reward": 0.5, "team_reward": 1.0, "reward": 1.5,
    }  # fmt: skip
    return base | fields


def turn(index: int, role: str) -> dict[str, Any]:
    return {
        "index": index, "role": role, "policy": role, "messages": [{"role": "user", "content": "<script>x</script>"}],
        "prompt_ids": [1], "candidates": [candidate("go up"), candidate("go down")], "executed": 0,
    }  # fmt: skip


def played(name: str, **fields: Any) -> EpisodeEvent:
    base = {
        "type": "episode", "episode": name, "iteration": 3, "kind": "train", "task": "t-1", "title": "to the goal",
        "outcome": "reached the goal", "success": True, "episode_return": 2.5, "rewards": {"planner": 1.5},
        "versions": {"planner": 3}, "tokens": 8, "started": 1.0, "ended": 2.0,
        "turns": [turn(0, "planner"), turn(0, "executor"), turn(1, "planner")],
    }  # fmt: skip
    return EpisodeEvent.model_validate(HEAD | base | fields)


def learnt(name: str, *turns: dict[str, Any], **fields: Any) -> EpisodeAnnotationEvent:
    return EpisodeAnnotationEvent.model_validate(
        HEAD | {"type": "episode_annotation", "episode": name, "turns": list(turns)} | fields
    )


def document(run: Run, name: str) -> dict[str, Any]:
    return episode_document(Episode.objects.get(run=run, name=name))


def test_a_failed_episode_without_steps_shows_its_error(ada: Client, run: Run) -> None:
    """As small networks tell of training."""
    error = "environment 3, mine:Game, step: ValueError: the floor gave way"
    facts = {"success": None, "failed": True, "error": error, "outcome": "failed in step 7"}
    episodes_store(run, 1, [played("1-3-train-0", turns=[], **facts)])
    run.config = load_config("spread_toy").model_dump(mode="json")
    run.save()
    page = text_of(ada.get(f"/runs/{run.pk}/episodes/{Episode.objects.get().pk}/"))
    assert error in page
    assert "Only metadata of this episode are stored: failed in step 7. Steps are stored" in page
    rows = ada.get(f"/runs/{run.pk}/transcripts/?outcome=failed").content.decode()
    assert f"error: {error}" in rows


def test_an_answer_of_several_calls_is_shown_as_messages(ada: Client, run: Run) -> None:
    messages = [
        {"role": "assistant", "content": "<b>I</b> look.", "tool_calls": "look({})"},
        {"role": "tool", "content": "<i>north</i>"},
        {"role": "assistant", "content": "north"},
    ]
    asked = turn(0, "planner")
    asked["candidates"][0] |= {"messages": messages}
    episodes_store(run, 1, [played("a", turns=[asked])])
    page = ada.get(f"/runs/{run.pk}/episodes/{Episode.objects.get().pk}/").content.decode()
    assert "&lt;b&gt;I&lt;/b&gt; look." in page and "<summary>calls look({})</summary>" in page
    assert "<summary>result of a tool</summary>" in page and "<i>north" not in page


def test_facts_and_body_are_kept_as_told(run: Run) -> None:
    episodes_store(run, 9, [played("1-3-train-0")])
    row = Episode.objects.get(run=run)
    assert (row.name, row.iteration, row.kind, row.cursor, row.turn_count, row.tokens) == (
        "1-3-train-0", 3, "train", 9, 2, 8
    )  # fmt: skip
    body = document(run, "1-3-train-0")
    assert [turn["role"] for turn in body["turns"]] == ["planner", "executor", "planner"]
    assert body["turns"][0]["messages"][0]["content"] == "<script>x</script>"
    assert body["turns"][0]["candidates"][0]["logprobs"] == [-0.1, "-Infinity"]
    assert EpisodeBody.objects.get().size == len(bytes(EpisodeBody.objects.get().data))


def test_one_that_is_there_is_left_as_it_is(run: Run) -> None:
    episodes_store(run, 1, [played("a", title="first"), played("a", title="second")])
    episodes_store(run, 2, [played("a", title="third"), played("b")])
    assert list(Episode.objects.order_by("id").values_list("name", "title", "cursor")) == [
        ("a", "second", 1),
        ("b", "to the goal", 2),
    ]
    assert EpisodeBody.objects.count() == 2


@pytest.mark.parametrize(
    ("told", "kept"), [("NaN", math.nan), ("Infinity", math.inf), ("-Infinity", -math.inf), (-1.5, -1.5)]
)
def test_returns_that_are_no_numbers(run: Run, told: Any, kept: float) -> None:
    episodes_store(run, 1, [played("a", episode_return=told, rewards={"planner": told})])
    row = Episode.objects.get(run=run)
    assert row.episode_return == kept or (math.isnan(kept) and math.isnan(row.episode_return))
    assert row.rewards == {"planner": told}


@pytest.mark.parametrize("first", ["episode", "annotation"])
def test_what_was_learnt_is_merged_whichever_comes_first(run: Run, first: str) -> None:
    figures = {"advantages": [0.7, "NaN"], "ratios": [[1.0, 1.1], [0.9, 1.0]], "entropies": [[0.1, 0.2]]}
    note = learnt("a", {"turn": 1} | figures, stages={"consumed": 5.0})
    if first == "annotation":
        annotations_store(run, 1, [note])
    episodes_store(run, 2, [played("a")])
    if first == "episode":
        annotations_store(run, 3, [note])
    body = document(run, "a")
    one, other = body["turns"][1]["candidates"]
    assert (one["advantage"], other["advantage"]) == (0.7, "NaN")
    assert (one["ratios"], one["entropies"]) == ([1.0, 1.1], [0.1, 0.2])
    assert "entropies" not in other
    assert body["turns"][0]["candidates"][0]["advantage"] is None
    assert body["stages"] == {"consumed": 5.0}


def test_damaged_notes_change_nothing_else(run: Run) -> None:
    episodes_store(run, 1, [played("a")])
    before = document(run, "a")
    notes = [
        learnt("a", {"turn": 99, "advantages": [1.0]}),
        learnt("a", {"turn": -1, "advantages": [1.0]}),
        learnt("a", {"turn": 0, "advantages": []}),
        learnt("a"),
        learnt("no such episode", {"turn": 0, "advantages": [1.0]}),
        learnt("a", {"turn": 0, "advantages": [1.0, 2.0]}, attempt=2),
    ]
    annotations_store(run, 2, notes)
    assert document(run, "a") == before | {"stages": {}}
    annotations_store(run, 3, [learnt("a", {"turn": 0, "advantages": [1.0, 2.0, 3.0, 4.0]})])
    assert [item["advantage"] for item in document(run, "a")["turns"][0]["candidates"]] == [1.0, 2.0]


def test_thinning_drops_the_oldest_training_bodies_and_their_notes_alone(run: Run) -> None:
    probe, evaluation = played("probe", probe=True), played("eval", kind="eval")
    episodes_store(run, 1, [probe, evaluation, *(played(f"train-{n}") for n in range(4))])
    annotations_store(
        run, 2, [learnt(f"train-{n}", {"turn": 0, "advantages": [1.0, -1.0]}) for n in range(4)]
    )
    sizes = sum(EpisodeBody.objects.values_list("size", flat=True))
    notes = sum(len(bytes(data)) for data in EpisodeAnnotation.objects.values_list("data", flat=True))
    assert bodies_thin(run, budget=sizes + notes) == 0
    assert bodies_thin(run, budget=sizes + notes - 1) == 1
    assert document(run, "train-0") == {}
    assert document(run, "train-1")["turns"]
    assert set(EpisodeAnnotation.objects.values_list("episode_name", flat=True)) == {
        "train-1",
        "train-2",
        "train-3",
    }
    assert bodies_thin(run, budget=0) == 3
    assert sorted(EpisodeBody.objects.values_list("episode__name", flat=True)) == ["eval", "probe"]
    assert Episode.objects.filter(run=run).count() == 6, "facts stay"
    assert not EpisodeAnnotation.objects.exists()


@pytest.mark.parametrize(
    ("state", "ended", "thinned"), [("running", None, True), ("finished", 10, True), ("failed", 90, False)]
)
def test_the_task_looks_at_runs_that_live_or_did_lately(
    run: Run, monkeypatch: pytest.MonkeyPatch, state: str, ended: int | None, thinned: bool
) -> None:
    ended_at = ended and timezone.now() - timedelta(minutes=ended)
    Run.objects.filter(pk=run.pk).update(state=state, ended_at=ended_at)
    seen: list[str] = []
    monkeypatch.setattr("webapp.transcripts.tasks.bodies_thin", lambda run: seen.append(run.pk))
    thin()
    assert seen == ([run.pk] if thinned else [])
