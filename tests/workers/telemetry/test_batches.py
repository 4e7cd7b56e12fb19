"""Batch events: facts and stages of episodes by hand."""

from training_core.types import Answer, Candidate, Episode, Stage, StopReason, Turn
from workers.telemetry.events import BatchEvent
from workers.telemetry.transcripts import AT_ONCE, batch_documents, staleness_of


def answer(tokens: int, version: int, stop: StopReason = "stop") -> Candidate:
    return Candidate(
        Answer([1] * tokens, [0.0] * tokens, [version] * tokens, stop, "x"), reward=0.25 * tokens
    )


def episode(name: str = "1-3-train-0") -> Episode:
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
        [episode()], {"p": 6, "e": 6}, iteration=3, queued=10.0, consumed=20.0, learnt=25.0
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
    assert staleness_of(episode(), {"p": 9, "e": 6}) == 3
    assert staleness_of(episode(), {"e": 6}) == 1
    assert staleness_of(episode(), {}) is None


def test_a_large_batch_is_split_into_several_events() -> None:
    many = [episode(f"1-3-train-{number}") for number in range(AT_ONCE + 1)]
    sizes = [
        len(part["episodes"])
        for part in batch_documents(many, {}, iteration=3, queued=1, consumed=2, learnt=3)
    ]
    assert sizes == [AT_ONCE, 1]
