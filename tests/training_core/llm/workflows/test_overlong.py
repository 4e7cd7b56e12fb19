"""What answers near the limit of their length cost, by hand, in every workflow that plays at the toy."""

import pytest

from tests.training_core.llm.external.test_records import reader, record
from tests.training_core.llm.workflows.counting import Recorder, config, make_context
from training_core.llm.external.records import train_episodes
from training_core.llm.workflows.overlong import (
    answer_cost,
    apply_overlong_penalty,
    overlong_cost,
    sampled_lengths,
    soft_limit,
)
from training_core.llm.workflows.turn_tree import play_turn_tree
from training_core.types import Answer, Candidate, Episode, Turn

SOFT = {"algorithm__overlong_tokens": 4, "algorithm__overlong_penalty": 2.0}
"""Of max_tokens = 8: nothing up to 4 tokens, then half a reward for each."""


def answer(mask: list[bool]) -> Answer:
    return Answer([1] * len(mask), [0.0] * len(mask), [0] * len(mask), "stop", "", mask)


def test_each_stretch_that_the_policy_said_is_an_answer_of_its_own() -> None:
    mask = [True] * 6 + [False] * 9 + [True] * 5 + [False] + [True]
    assert sampled_lengths(answer(mask)) == [6, 5, 1]
    assert answer_cost(answer(mask), "planner", config(**SOFT)) == pytest.approx(1.0 + 0.5)
    assert sampled_lengths(Answer([1] * 7, [], [], "stop", "")) == [7]
    assert sampled_lengths(answer([False] * 7)) == []


def test_candidates_of_programs_are_charged_once() -> None:
    turn = Turn(0, "planner", "planner", [], [1], [Candidate(answer([True] * 8), reward=5.0)], 0)
    episode = Episode("e", 1, "train", "t", "", [turn])
    apply_overlong_penalty([episode], config(**SOFT))
    assert turn.candidates[0].reward == 3.0
    apply_overlong_penalty([episode], config())
    assert turn.candidates[0].reward == 3.0, "without a soft limit nothing is charged"


def test_a_turn_s_candidates_are_charged_as_they_are_tried() -> None:
    voices = {
        name: Recorder(lambda seen, prompt, index: "1" + " <eos>" * (3 + index))
        for name in ("planner", "executor")
    }
    plain, charged = (play_turn_tree([1], make_context(voices, **extra)) for extra in ({}, SOFT))
    for before, after in zip(plain[0].turns, charged[0].turns, strict=True):
        for place, (one, other) in enumerate(zip(before.candidates, after.candidates, strict=True)):
            assert len(one.answer.token_ids) == 5 + place
            assert one.reward - other.reward == pytest.approx(0.5 * (1 + place))


def test_records_from_outside_are_weighed_and_charged() -> None:
    said = [("user", "w1"), ("assistant", "w2 w3 w4 w5 w6"), ("user", "w3"), ("assistant", "w4")]
    reading = reader()
    algorithm = reading.config.algorithm.model_copy(
        update={"team_weight": 4.0, "overlong_tokens": 4, "overlong_penalty": 2.0}
    )
    heavy = reading.config.model_copy(update={"algorithm": algorithm})
    (episode,) = train_episodes(
        [[record(*said)]], reading.__class__(**(vars(reading) | {"config": heavy})), 0
    )
    (turn,) = episode.turns
    assert (turn.candidates[0].team_reward, turn.candidates[0].reward) == (0.5, 2.0)
    apply_overlong_penalty([episode], heavy)
    assert turn.candidates[0].reward == pytest.approx(2.0 - 1.0), (
        "6 tokens, then 2: 2 of 4 soft tokens are used"
    )


def test_dapo_s_soft_limit_is_a_fifth_of_the_answers_length() -> None:
    dapo = config(algorithm__type="dapo", team__roles__planner__sampling__max_tokens=100)
    assert dapo.algorithm.overlong_share == 0.2
    assert answer_cost(answer([True] * 80), "planner", dapo) == 0.0
    assert answer_cost(answer([True] * 90), "planner", dapo) == pytest.approx(0.5)
    assert answer_cost(answer([True] * 100), "planner", dapo) == 1.0


def test_the_soft_limit_on_length_by_hand() -> None:
    assert [overlong_cost(length, 10, 4, 2.0) for length in (0, 6, 7, 8, 10, 12)] == [
        0,
        0,
        0.5,
        1.0,
        2.0,
        2.0,
    ]
    assert overlong_cost(10, 10, 0, 2.0) == 0.0


def test_the_soft_limit_is_a_share_of_the_answers_length() -> None:
    assert soft_limit(20480, 0, 0.2) == 4096, "DAPO's own"
    assert soft_limit(8, 0, 0.2) == 2
    assert soft_limit(8, 3, 0.2) == 3, "a number of tokens takes the share's place"
    assert soft_limit(8, 0, 0.0) == 0
