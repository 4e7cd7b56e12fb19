"""Episodes as events: the models that validate them on arrival take them as they are."""

from collections.abc import Sequence
from dataclasses import replace

from tests.workers.driver.builders import episode
from workers.protocol import TokenFigures
from workers.telemetry.events import EpisodeAnnotationEvent, EpisodeEvent
from workers.telemetry.transcripts import annotation_document, choose_transcripts, episode_document

ENVELOPE = {"run": "r", "attempt": 1, "producer": "p", "seq": 1, "time": 0.0}


def spell(policy: str, ids: Sequence[int]) -> list[str]:
    return [f"{policy}{number}" for number in ids]


def test_an_episode_is_a_valid_event() -> None:
    event = EpisodeEvent(**ENVELOPE, type="episode", **episode_document(episode(), {"planner": 3}, spell))
    assert event.episode_return == 1.5
    assert event.rewards == {"planner": 1.0, "executor": 0.5}
    assert event.turns[0].candidates[1].tokens == ["planner0", "planner1"]
    assert event.versions == {"planner": 3}


def test_truncated_depends_only_on_executed_candidates() -> None:
    played = episode()
    object.__setattr__(played.turns[0].candidates[0].answer, "stop_reason", "length")
    assert not episode_document(played, {}, spell)["truncated"]
    object.__setattr__(played.turns[0].candidates[1].answer, "stop_reason", "length")
    assert episode_document(played, {}, spell)["truncated"]
    assert episode_document(episode(overlong="no room"), {}, spell)["truncated"]


def test_an_annotation_has_all_advantages_and_available_token_values() -> None:
    played = episode()
    for candidate, advantage in zip(played.turns[0].candidates, (-0.7, 0.7), strict=True):
        candidate.advantage = advantage
    figures = TokenFigures([[1.0, 1.0]] * 2, [[0.5, 0.5]] * 2, [[-0.5, -0.5]] * 2, [[1, 1]] * 2)
    document = annotation_document(played, {(played.id, 0): figures}, {"consumed": 2.0})
    event = EpisodeAnnotationEvent(**ENVELOPE, type="episode_annotation", **document)
    assert [item.turn for item in event.turns] == [0], "the executor's turn was not trained"
    assert event.turns[0].advantages == [-0.7, 0.7]
    assert event.turns[0].ratios == [[1.0, 1.0], [1.0, 1.0]]
    assert event.turns[0].masks == [], "all tokens are in the loss"
    some = replace(figures, ratios=[[], [1.0, 1.0]], masks=[[], [0, 1]])
    (turn,) = annotation_document(played, {(played.id, 0): some}, {})["turns"]
    assert turn["masks"] == [[0, 0], [0, 1]], "the first answer was left out of the update"
    played.turns[0].candidates[0].scored = False  # so it is not in the group
    told = EpisodeEvent(
        **ENVELOPE, type="episode", **episode_document(played, {}, lambda _, ids: ["x"] * len(ids))
    )
    assert [candidate.reward is None for candidate in told.turns[0].candidates] == [True, False]
    one = TokenFigures([[1.0, 1.0]], [[0.5, 0.5]], [[-0.5, -0.5]], [[1, 1]])
    (turn,) = annotation_document(played, {(played.id, 0): one}, {})["turns"]
    assert (turn["ratios"], turn["masks"]) == ([[], [1.0, 1.0]], [[0, 0], [1, 1]])
    (turn,) = annotation_document(played, {}, {})["turns"]
    assert turn["masks"] == [[0, 0], [0, 0]] and "ratios" not in turn, "the whole group was left out"


def test_the_draw_depends_on_seed_and_iteration_alone() -> None:
    first = choose_transcripts(0, 1, 48, 8)
    assert first == choose_transcripts(0, 1, 48, 8)
    assert len(first) == 8
    assert first != choose_transcripts(0, 2, 48, 8)
    assert choose_transcripts(0, 1, 3, 8) == {0, 1, 2}
