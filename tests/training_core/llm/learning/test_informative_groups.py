"""Loss, metrics, filters and dynamic sampling judge the same rewards by the same tolerance, whatever the config."""

from itertools import product
from typing import Any

import pytest

from training_core.config.files import load_config
from training_core.config.run import RunConfig
from training_core.errors import ConfigError
from training_core.llm.learning.training_groups import is_informative, make_groups
from training_core.types import Answer, Candidate, Episode, Turn

ANSWER = Answer([1], [0.0], [0], "stop", "")
TASKS: list[list[list[float]]] = [
    # rewards of a task's turns: of candidates, or of siblings with one candidate each
    [[0.1 + 0.2, 0.3, 0.3]],
    [[1.0, 1.0, 1.0], [1.0, 1.0, 1.0]],
    [[0.6, 90.0, 7.0]],
    [[0.0, 0.0, 0.0], [0.0, 0.4, 0.4]],
    [[-1.0, -1.0, -1.0], [1e9, 1e9 + 0.01, 1e9]],
]
LEVELS = ("group", "batch", "none")


def config_of(**overrides: Any) -> RunConfig:
    return load_config("plan_path_duo", {f"algorithm.{key}": value for key, value in overrides.items()})


def tree(task: int) -> list[Episode]:
    turns = [
        Turn(place, "planner", "planner", [], [1], [Candidate(ANSWER, reward=each) for each in rewards], 0)
        for place, rewards in enumerate(TASKS[task])
    ]
    return [Episode(f"e{task}", 1, "train", f"train-{task}", "", turns)]


def siblings(task: int) -> list[Episode]:
    result = []
    for number, rewards in enumerate(zip(*TASKS[task], strict=True)):
        turns = [
            Turn(place, "planner", "planner", [], [1], [Candidate(ANSWER, reward=each)], 0)
            for place, each in enumerate(rewards)
        ]
        result.append(
            Episode(f"e{task}-{number}", 1, "train", f"train-{task}", "", turns, siblings=f"s{task}")
        )
    return result


COMBINATIONS = list(product(LEVELS, LEVELS, (False, True), (False, True)))


@pytest.mark.parametrize("reshape", ["none", "binary", "normalised", "discount", "shaped", "turn_weighted"])
@pytest.mark.parametrize("make", [tree, siblings])
def test_a_task_is_replaced_exactly_where_the_loss_would_leave_it_out(reshape: str, make: Any) -> None:
    for mean, std, leave, drop in COMBINATIONS:
        config = config_of(
            mean_level=mean,
            std_level=std,
            leave_one_out=leave,
            drop_zero_variance=drop,
            reshape=reshape,
            reshape_threshold=0.5,
        )
        within = drop or "group" in (mean, std)
        for task in range(len(TASKS)):
            played = make(task)
            batch = make_groups(played, config)
            learnt = batch.groups["planner"]
            if drop:
                assert is_informative(played, config) == bool(learnt), (task, mean, std, leave)
            if within:
                count = batch.counts["planner"]
                assert is_informative(played, config) == (count.zero_variance < count.total)
                assert count.too_easy + count.too_hard == count.zero_variance
            biggest = max((abs(each) for group in learnt for each in group.advantages), default=0.0)
            assert biggest < 1e4 or std == "none" or mean == "none", "nothing is divided by almost nothing"


def test_rounding_makes_no_task_worth_learning_from() -> None:
    config = config_of()
    assert not is_informative(tree(0), config)
    assert make_groups(tree(0), config).groups["planner"] == []


def test_rewards_are_reshaped_before_a_task_is_judged() -> None:
    assert is_informative(tree(2), config_of())
    assert not is_informative(tree(2), config_of(reshape="binary", reshape_threshold=0.5))


def test_a_task_outside_the_bounds_of_the_group_filter_is_replaced() -> None:
    assert is_informative(tree(2), config_of(group_filter="mean", filter_high=40.0))
    config = config_of(group_filter="mean", filter_high=10.0)
    assert not is_informative(tree(2), config)
    assert make_groups(tree(2), config).groups["planner"] == []


def test_groups_of_one_that_nothing_compares_are_refused() -> None:
    base = {"rollout.group_size": 1}
    with pytest.raises(ConfigError, match="drop_zero_variance"):
        load_config("plan_path_duo", base | {"algorithm.mean_level": "batch", "algorithm.std_level": "none"})
    with pytest.raises(ConfigError, match="group of one has no advantage"):
        load_config("plan_path_duo", base | {"algorithm.mean_level": "batch"})
    for kind in ("reinforce_plus_plus", "ppo", "rae"):
        load_config("plan_path_duo", base | {"algorithm.type": kind})


def test_dynamic_sampling_is_refused_where_every_group_is_learnt_from() -> None:
    asked = {"rollout.over_sampling": 2.0, "algorithm.type": "reinforce_plus_plus"}
    with pytest.raises(ConfigError, match="drop_zero_variance = true"):
        load_config("plan_path_duo", asked)
    load_config("plan_path_duo", asked | {"algorithm.drop_zero_variance": True})


def test_a_critic_is_not_taught_rewards_compared_within_groups() -> None:
    with pytest.raises(ConfigError, match="a critic predicts the reward of an answer"):
        load_config("plan_path_duo", {"algorithm.type": "ppo", "algorithm.std_level": "group"})


def test_without_a_turn_of_a_trained_role_a_task_is_not_informative() -> None:
    assert not is_informative([Episode("e", 1, "train", "t", "", [])], config_of())


def test_the_share_of_groups_to_filter_is_no_matter_of_one_task() -> None:
    """Of a whole batch, the half with the lowest means would be left out: here, the group that varies."""
    rewards = [[0.0, 1.0, 0.0], [5.0, 5.0, 5.0]]
    turns = [
        Turn(place, "planner", "planner", [], [1], [Candidate(ANSWER, reward=each) for each in mine], 0)
        for place, mine in enumerate(rewards)
    ]
    task = [Episode("e", 1, "train", "t", "", turns)]
    assert is_informative(task, config_of(group_filter="mean", filter_ratio=0.5))
