"""Events about episodes, by hand: transcripts, annotations and batches."""

from collections.abc import Sequence
from dataclasses import replace

from tests.workers.driver.builders import episode
from training_core.types import Answer, Candidate, Episode, Stage, StopReason, Turn
from workers.protocol import TokenFigures
from workers.telemetry.events import BatchEvent, EpisodeAnnotationEvent, EpisodeEvent
from workers.telemetry.transcripts import (
    AT_ONCE,
    annotation_document,
    batch_documents,
    choose_transcripts,
    episode_document,
    staleness_of,
)


def answer(tokens: int, version: int, stop: StopReason = "stop") -> Candidate:
    return Candidate(
        Answer([1] * tokens, [0.0] * tokens, [version] * tokens, stop, "x"), reward=0.25 * tokens
    )


def batch_episode(name: str = "1-3-train-0") -> Episode:
    """Planner (2 answers, the second of 3 tokens executed), then executor (4 tokens, cut), twice."""
    made = Episode(name, 3, "train", "t", "two turns", started=11.0, ended=19.0)
    for index in range(2):
        made.turns.append(Turn(index, "planner", "p", [], [1], [answer(2, 6), answer(3, 6)], 1))
        made.turns.append(Turn(index, "executor", "e", [], [1], [answer(4, 5, "length")], 0))
    made.stages = [
        Stage("generate", 11, 12, "planner", "p", (6, 6)),
        Stage("environment", 12, 13),
        Stage("generate", 13, 15, "executor", "e", (5, 6)),
    ]
    return made


def test_an_episode_by_hand() -> None:
    (document,) = batch_documents(
        [batch_episode()], {"p": 6, "e": 6}, iteration=3, queued=10.0, consumed=20.0, learnt=25.0
    )
    event = BatchEvent(run="r", attempt=1, producer="p", seq=1, time=1.0, type="batch", **document)
    (told,) = event.episodes
    assert (told.length, told.tokens, told.turns, told.staleness, told.truncated) == (14, 18, 2, 1, True)
    assert (told.queued, told.started, told.ended, event.consumed, event.learnt) == (10, 11, 19, 20, 25)
    assert told.roles["planner"].model_dump() == {
        "policy": "p",
        "reward": 1.5,
        "tokens": 6,
        "truncated": False,
    }
    assert told.roles["executor"].tokens == 8 and told.roles["executor"].truncated
    assert [stage.versions for stage in told.stages] == [(6, 6), None, (5, 6)]


def test_staleness_is_the_maximum_over_trained_policies() -> None:
    assert staleness_of(batch_episode(), {"p": 9, "e": 6}) == 3
    assert staleness_of(batch_episode(), {"e": 6}) == 1
    assert staleness_of(batch_episode(), {}) is None


def test_a_large_batch_is_split_into_several_events() -> None:
    many = [batch_episode(f"1-3-train-{number}") for number in range(AT_ONCE + 1)]
    sizes = [
        len(part["episodes"])
        for part in batch_documents(many, {}, iteration=3, queued=1, consumed=2, learnt=3)
    ]
    assert sizes == [AT_ONCE, 1]


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
