"""Ages of tokens, on answers of known versions."""

import pytest

from training_core.errors import StalePolicy
from training_core.types import NOT_SAMPLED, Answer, Candidate, Episode, Group, Stage, Turn
from training_core.versions import (
    answer_age,
    check_ages,
    episode_age,
    first_version_tokens,
    oldest_versions,
    version_span,
)


def answer(*versions: int, mask: list[bool] | None = None) -> Answer:
    count = len(versions)
    return Answer([7] * count, [0.0] * count, list(versions), "stop", "", mask)


def group(*answers: Answer) -> Group:
    return Group("e", 0, [1], list(answers), [0.0] * len(answers), [0.0] * len(answers), 1.0, 0, 1.0)


def episode(*turns: tuple[str, Answer]) -> Episode:
    played = Episode("e", 1, "train", "", "")
    for index, (policy, said) in enumerate(turns):
        played.turns.append(Turn(index, policy, policy, [], [1], [Candidate(said)], 0))
        span = version_span(said.versions)
        played.stages.append(Stage("generate", 0.0, 1.0, policy, policy, span))
    return played


def test_a_span_ignores_tokens_that_were_not_sampled() -> None:
    assert version_span([4, NOT_SAMPLED, 2, 3]) == (2, 4)
    assert version_span([NOT_SAMPLED]) is None and version_span([]) is None


@pytest.mark.parametrize(
    ("given", "age"),
    [
        (answer(5, 5), 0),
        (answer(3, 5), 2),
        (answer(3, 6), -1),
        (answer(), 0),
        (answer(1, 4, mask=[False, True]), 1),
        (answer(NOT_SAMPLED, 5, mask=[False, True]), 0),
    ],
)
def test_the_oldest_trained_token_decides_unless_one_is_newer(given: Answer, age: int) -> None:
    assert answer_age(given, 5) == age


def test_an_episode_is_as_old_as_the_policy_that_is_furthest_behind() -> None:
    played = episode(("planner", answer(2, 3)), ("executor", answer(6)), ("planner", answer(1)))
    assert episode_age(played, {"planner": 4, "executor": 7}) == 3
    assert episode_age(played, {"planner": 1, "executor": 9}) == 3
    assert episode_age(episode(), {}) == 0
    assert oldest_versions(played) == {"planner": 1, "executor": 6}


def test_tokens_before_a_change_of_version_are_counted() -> None:
    assert [first_version_tokens(answer(*versions)) for versions in ((), (3,), (3, 3, 4, 3), (3, 3))] == [
        0,
        1,
        2,
        2,
    ]


def test_training_refuses_tokens_that_are_too_old_or_newer() -> None:
    check_ages([group(answer(3, 5), answer())], 5, staleness=2)
    with pytest.raises(StalePolicy, match="turn 0: sampled by version 2, but the policy is at version 5"):
        check_ages([group(answer(5), answer(4, 2))], 5, staleness=2)
    with pytest.raises(StalePolicy, match="sampled by version 6"):
        check_ages([group(answer(6))], 5, staleness=2)
