"""Bodies in pieces: what is read of a long episode is what a whole reading has there."""

import random
from typing import Any

import orjson
import pytest
import zstandard
from django.db.models import BinaryField, Case, F, When
from django.http import Http404

from tests.webapp.transcripts.test_episodes import candidate, learnt, played, turn
from webapp.runs.models import Run
from webapp.transcripts import bodies
from webapp.transcripts.bodies import PIECE, body_packed, unpacked
from webapp.transcripts.models import Episode, EpisodeAnnotation, EpisodeBody
from webapp.transcripts.selectors import episode_document, turn_get, turns_read
from webapp.transcripts.services import annotations_store, episodes_store


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


def test_frames_add_up() -> None:
    data, frames = body_packed({"turns": answers(120), "final_board": None})
    assert [turns for turns, _ in frames] == [50, 50, 20] and sum(size for _, size in frames) == len(data)
    assert unpacked(data) == {"turns": answers(120), "final_board": None}


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
