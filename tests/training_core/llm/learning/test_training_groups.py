"""Groups: what is compared with what, what is learnt from, what is counted."""

import math
import random
from pathlib import Path
from typing import Any

import pytest

from training_core.algorithms.at_grpo import GroupCounts
from training_core.config.files import load_config
from training_core.errors import CheckpointError, EnvironmentFailure
from training_core.llm.learning.training_groups import make_groups, read_baselines, save_baselines
from training_core.types import Answer, Candidate, Compared, Episode, Turn


def turn(role: str, *rewards: float, policy: str = "") -> Turn:
    answers = [Answer([place], [-0.5], [0], "stop", "") for place in range(len(rewards))]
    candidates = [Candidate(answer, reward=reward) for answer, reward in zip(answers, rewards, strict=True)]
    return Turn(0, role, policy or role, [], [7, 8], candidates, 0)


def episode(name: str, *turns: Turn) -> Episode:
    return Episode(name, 1, "train", "t", "", turns=list(turns))


def config(**overrides: Any) -> Any:
    return load_config("plan_path_duo", {key.replace("__", "."): value for key, value in overrides.items()})


def advantages(turn: Turn) -> list[float | None]:
    return [candidate.advantage for candidate in turn.candidates]


def test_a_group_is_one_turn_of_one_role_in_one_task() -> None:
    """Rewards far apart between tasks, turns and roles do not leak into one another's advantages."""
    first = episode("a", turn("planner", 0.0, 1.0), turn("executor", 100.0, 101.0), turn("planner", 5.0, 4.0))
    second = episode("b", turn("planner", 1000.0, 1001.0))
    batch = make_groups([first, second], config())
    half = math.sqrt(0.5)
    unit = 0.5 / (half + 1e-6)
    for played, signs in (
        (first.turns[0], [-1, 1]),
        (first.turns[1], [-1, 1]),
        (first.turns[2], [1, -1]),
        (second.turns[0], [-1, 1]),
    ):
        assert advantages(played) == pytest.approx([sign * unit for sign in signs], abs=1e-9)
    assert [(group.episode, group.turn) for group in batch.groups["planner"]] == [
        ("a", 0),
        ("a", 2),
        ("b", 0),
    ]
    assert [(group.episode, group.turn) for group in batch.groups["executor"]] == [("a", 1)]
    group = batch.groups["planner"][1]
    assert group.prompt_ids == [7, 8]
    assert group.rewards == [5.0, 4.0]
    assert group.advantages == advantages(first.turns[2])


def test_groups_without_variance_are_counted_and_left_out_unless_wanted() -> None:
    played = [episode("a", turn("planner", 1.0, 1.0), turn("planner", 0.0, 0.0), turn("planner", 0.0, 1.0))]
    batch = make_groups(played, config())
    assert batch.counts == {"planner": GroupCounts(3, 2, 1, 1), "executor": GroupCounts()}
    assert [group.turn for group in batch.groups["planner"]] == [2]
    assert batch.groups["executor"] == []
    kept = make_groups(played, config(algorithm__drop_zero_variance=False)).groups["planner"]
    assert [group.advantages for group in kept[:2]] == [[0.0, 0.0], [0.0, 0.0]]


def test_with_a_mean_over_the_batch_groups_of_one_teach() -> None:
    one = config(
        rollout__group_size=1,
        algorithm__mean_level="batch",
        algorithm__std_level="none",
        algorithm__drop_zero_variance=False,
    )
    batch = make_groups([episode("a", turn("planner", 1.0)), episode("b", turn("planner", 3.0))], one)
    assert [group.advantages for group in batch.groups["planner"]] == [[-1.0], [1.0]]
    assert batch.counts["planner"].zero_variance == 2


def test_roles_with_one_policy_share_its_batch_unless_frozen() -> None:
    shared = {
        "algorithm__mean_level": "batch",
        "algorithm__std_level": "none",
        "team__roles__executor__policy": "planner",
    }
    played = [
        episode("a", turn("planner", 0.0, 1.0), turn("executor", 4.0, 5.0, policy="planner")),
    ]
    both = make_groups(played, config(**shared)).groups
    assert set(both) == {"planner"}
    assert [group.advantages for group in both["planner"]] == [[-2.5, -1.5], [1.5, 2.5]]
    frozen = make_groups(played, config(**shared, team__roles__executor__trained=False))
    assert [group.advantages for group in frozen.groups["planner"]] == [[-0.5, 0.5]]
    assert advantages(played[0].turns[1]) == [-0.5, 0.5]
    assert frozen.counts["executor"].total == 1


def test_a_groups_sampling_is_its_roles() -> None:
    tempered = config(
        team__roles__planner__sampling__temperature=0.7,
        team__roles__planner__sampling__top_k=5,
        team__roles__planner__sampling__top_p=0.9,
        team__roles__planner__sampling__max_tokens=33,
        algorithm__reshape="binary",
        algorithm__reshape_threshold=0.5,
    )
    played = episode("a", turn("planner", 1.0, 1.0), turn("planner", 0.0, 4.0))
    (group,) = make_groups([played], tempered).groups["planner"]
    assert (group.temperature, group.top_k, group.top_p, group.max_tokens) == (0.7, 5, 0.9, 33)
    assert group.role == "planner"
    assert group.compared == [Compared(2, 1, 0.0), Compared(3, 1, 1.0)], (
        "units and groups count the whole batch"
    )


@pytest.mark.parametrize("reward", [math.nan, math.inf])
def test_a_reward_that_is_no_number_is_refused_by_its_episodes_name(reward: float) -> None:
    with pytest.raises(EnvironmentFailure, match="episode a .*turn 0: the environment paid planner"):
        make_groups([episode("a", turn("planner", 0.0, reward))], config())


def later(role: str, index: int, *rewards: float) -> Turn:
    made = turn(role, *rewards)
    made.index = index
    return made


def test_reshaped_rewards_are_compared_and_paid_ones_are_kept() -> None:
    binary = config(
        algorithm__reshape="binary", algorithm__reshape_threshold=0.5, algorithm__std_level="none"
    )
    played = episode("a", turn("planner", 0.4, 0.6, 90.0))
    group = make_groups([played], binary).groups["planner"][0]
    assert group.advantages == pytest.approx([-2 / 3, 1 / 3, 1 / 3])
    assert group.rewards == [0.4, 0.6, 90.0]
    equal = make_groups([episode("a", turn("planner", 0.6, 90.0))], binary)
    assert (equal.groups["planner"], equal.counts["planner"].zero_variance) == ([], 1)


def test_a_discount_is_by_the_team_s_turn() -> None:
    reported = config(
        algorithm__reshape="discount", algorithm__reshape_discount=0.5, algorithm__std_level="none"
    )
    played = episode(
        "a", later("planner", 0, 0.0, 4.0), later("executor", 0, 0.0, 4.0), later("planner", 2, 0.0, 4.0)
    )
    batch = make_groups([played], reported)
    assert [group.advantages for group in batch.groups["planner"]] == [[-2.0, 2.0], [-0.5, 0.5]]
    assert batch.groups["executor"][0].advantages == [-2.0, 2.0]


def test_a_late_turn_weighs_more_by_its_place_among_the_episode_s_turns() -> None:
    reported = config(algorithm__reshape="turn_weighted", algorithm__std_level="none")
    played = episode("a", later("planner", 0, 0.0, 4.0), later("executor", 1, 0.0, 4.0))
    batch = make_groups([played], reported)
    assert batch.groups["planner"][0].advantages == [-1.0, 1.0]  # the first of two turns: half of the reward
    assert batch.groups["executor"][0].advantages == [-2.0, 2.0]


def test_normalised_rewards_lie_between_0_and_1_in_their_group() -> None:
    reported = config(algorithm__reshape="normalised", algorithm__std_level="none")
    batch = make_groups(
        [episode("a", turn("planner", 10.0, 20.0, 30.0), turn("planner", 0.0, 0.1))], reported
    )
    assert [group.advantages for group in batch.groups["planner"]] == [
        pytest.approx([-0.5, 0.0, 0.5]),
        pytest.approx([-0.5, 0.5]),
    ]


def test_shaping_looks_at_what_the_role_earned_before_and_episodes_are_summed() -> None:
    """Siblings a and b of one task; shaped with weight 1 and discount 1 is r + (r - before)."""
    reported = config(
        algorithm__reshape="shaped", algorithm__reshape_discount=1.0, algorithm__std_level="none"
    )
    one = episode("a", later("planner", 0, 1.0), later("executor", 0, 50.0), later("planner", 1, 3.0))
    other = episode("b", later("planner", 0, 2.0), later("executor", 0, 50.0), later("planner", 1, 0.0))
    one.siblings = other.siblings = "kin"
    batch = make_groups([one, other], reported)
    # a: 1 + 1 + 3 + 2 = 7; b: 2 + 2 + 0 - 2 = 2; mean 4.5
    assert [group.advantages for group in batch.groups["planner"]] == [[2.5], [2.5], [-2.5], [-2.5]]
    assert batch.groups["executor"] == []


def test_shaping_compares_with_the_last_answer_that_has_a_reward() -> None:
    reported = config(
        algorithm__reshape="shaped",
        algorithm__reshape_discount=1.0,
        algorithm__std_level="none",
        algorithm__mean_level="none",
    )
    turns = [later("planner", 0, 1.0, 2.0), later("planner", 1, 50.0, 50.0), later("planner", 2, 3.0, 4.0)]
    for candidate in turns[1].candidates:
        candidate.scored = False
    groups = make_groups([episode("a", *turns)], reported).groups["planner"]
    # r + (r - before): nothing came before the first turn, and the first candidate of each turn was executed
    assert [group.advantages for group in groups] == [[2.0, 4.0], [5.0, 7.0]]


def test_filtered_groups_teach_nothing_and_are_counted_by_role() -> None:
    low = config(algorithm__group_filter="std", algorithm__filter_low=1.0)
    played = [episode("a", turn("planner", 0.0, 1.0), turn("planner", 0.0, 9.0), turn("executor", 0.0, 0.5))]
    batch = make_groups(played, low)
    assert [group.turn for group in batch.groups["planner"]] == [1]
    assert batch.groups["executor"] == []
    assert advantages(played[0].turns[0]) == [0.0, 0.0]
    assert (batch.counts["planner"].filtered, batch.counts["executor"].filtered) == (1, 1)
    assert batch.counts["planner"].zero_variance == 0


def test_filter_ratio_excludes_the_groups_with_the_least_variance() -> None:
    reported = config(
        algorithm__group_filter="std", algorithm__filter_ratio=0.5, team__roles__executor__policy="planner"
    )
    played = episode(
        "a",
        turn("planner", 0.0, 1.0),
        turn("executor", 0.0, 3.0, policy="planner"),
        turn("planner", 0.0, 2.0),
        turn("executor", 0.0, 4.0, policy="planner"),
    )
    batch = make_groups([played], reported)
    assert [group.turn for group in batch.groups["planner"]] == [1, 3]
    assert (batch.counts["planner"].filtered, batch.counts["executor"].filtered) == (2, 0)


@pytest.mark.parametrize(("unbiased", "kept"), [(True, 1), (False, 0)])
def test_the_filter_measures_the_deviation_of_the_algorithm(unbiased: bool, kept: int) -> None:
    """Of 0 and 2: 1.41 by n - 1, 1 by n."""
    wide = config(algorithm__group_filter="std", algorithm__filter_low=1.2, algorithm__unbiased_std=unbiased)
    assert len(make_groups([episode("a", turn("planner", 0.0, 2.0))], wide).groups["planner"]) == kept


def test_each_role_has_a_baseline_and_groups_of_one_are_informative() -> None:
    """One policy, two roles: what the executor earns leaves the planner's baseline alone."""
    reported = config(
        algorithm__type="rae",
        algorithm__baseline_decay=0.5,
        rollout__group_size=1,
        team__roles__executor__policy="planner",
    )
    played = [
        episode("a", turn("planner", 1.0), turn("executor", 100.0, policy="planner")),
        episode("b", turn("planner", 3.0), turn("executor", 100.0, policy="planner")),
    ]
    batch = make_groups(played, reported, {"executor": 100.0})
    # planner: b = 0.5, A = 0.5; then b = 0.25 + 1.5 = 1.75, A = 1.25; the executor earned what it always does
    assert [group.advantages for group in batch.groups["planner"]] == [[0.5], [0.0], [1.25], [0.0]]
    assert batch.baselines == {"planner": 1.75, "executor": 100.0}
    assert make_groups([episode("c", turn("planner", 1.75))], reported, batch.baselines).groups["planner"][
        0
    ].advantages == [0.0]
    assert make_groups(played, config()).baselines == {}


def test_the_reward_of_a_whole_episode_is_compared_with_the_baseline() -> None:
    reported = config(algorithm__type="rae", algorithm__baseline_decay=0.5)
    one = episode("a", later("planner", 0, 1.0), later("executor", 0, 2.0), later("planner", 1, 3.0))
    other = episode("b", later("planner", 0, 2.0), later("executor", 0, 2.0), later("planner", 1, 0.0))
    one.siblings = other.siblings = "kin"
    batch = make_groups([one, other], reported)
    # planner earned 4, then 2: b = 2, A = 2; b = 2, A = 0. Executor 2 and 2: b = 1, A = 1; b = 1.5, A = 0.5
    assert [group.advantages for group in batch.groups["planner"]] == [[2.0], [2.0], [0.0], [0.0]]
    assert [group.advantages for group in batch.groups["executor"]] == [[1.0], [0.5]]
    assert batch.baselines == {"planner": 2.0, "executor": 1.5}


def test_baselines_are_read_as_they_were_written(tmp_path: Path) -> None:
    assert read_baselines(tmp_path) == {}
    save_baselines(tmp_path, {"planner": 0.1 + 0.2, "executor": -1e-17})
    assert read_baselines(tmp_path) == {"planner": 0.1 + 0.2, "executor": -1e-17}
    (tmp_path / "baselines.json").write_text("[")
    with pytest.raises(CheckpointError, match="damaged"):
        read_baselines(tmp_path)


@pytest.mark.parametrize("discount", [0.0, 0.5, 0.9, 1.0])
def test_calls_have_advantages_of_their_own_discounted_returns(discount: float) -> None:
    """Against a naive loop: returns backwards by role, groups by role and number of the role's turn."""
    generator = random.Random(3)
    plan = [("planner", "executor", "planner"), ("planner", "planner", "planner", "executor"), ("executor",)]
    siblings = []
    for number, roles in enumerate(plan):
        one = episode(f"e{number}", *(turn(role, generator.random()) for role in roles))
        one.siblings, one.turn_discount = "kin", discount
        siblings.append(one)
    make_groups(siblings, config(algorithm__std_level="none"))
    returns: dict[tuple[int, int], float] = {}
    groups: dict[tuple[str, int], list[tuple[int, int]]] = {}
    for number, roles in enumerate(plan):
        for role in ("planner", "executor"):
            mine = [place for place, each in enumerate(roles) if each == role]
            for nth, place in enumerate(mine):
                later = [siblings[number].turns[other].candidates[0].reward for other in mine[nth:]]
                returns[number, place] = sum(reward * discount**gap for gap, reward in enumerate(later))
                groups.setdefault((role, nth), []).append((number, place))
    for members in groups.values():
        mean = sum(returns[member] for member in members) / len(members)
        for number, place in members:
            expected = returns[number, place] - mean if len(members) > 1 else 0.0
            assert advantages(siblings[number].turns[place]) == [pytest.approx(expected, abs=1e-12)]
    counts = make_groups(siblings, config(algorithm__group_filter="mean", algorithm__filter_low=9.0)).counts
    assert counts["planner"].filtered == len({nth for role, nth in groups if role == "planner"})


def played(name: str, *rewards: float | None, siblings: str = "kin", **fields: Any) -> Episode:
    """Turns of the planner with one candidate each; None: without a reward."""
    turns = [later("planner", index, reward or 0.0) for index, reward in enumerate(rewards)]
    for each, reward in zip(turns, rewards, strict=True):
        each.candidates[0].scored = reward is not None
    return Episode(name, 1, "train", "t", "", turns, siblings=siblings, **fields)


@pytest.mark.parametrize(
    "kind", ["at_grpo", "rloo", "reinforce_plus_plus", "reinforce_plus_plus_baseline", "rae", "dr_grpo"]
)
@pytest.mark.parametrize("lost", [{"failed": True}, {}])
def test_no_statistic_depends_on_episodes_that_are_left_out(kind: str, lost: dict[str, Any]) -> None:
    """Failed, or without a reward: neither their siblings nor the rest of the batch notice them."""
    reported = config(algorithm__type=kind)
    reward = 50.0 if lost else None
    others = [played("c", reward, **lost), played("d", reward, siblings="others", **lost)]
    kept = [played("a", 1.0), played("b", 0.5)]
    alone = make_groups(kept, reported)
    expected = [advantages(each.turns[0]) for each in kept]
    together = make_groups([*others, *kept], reported)
    assert [advantages(each.turns[0]) for each in kept] == expected
    assert [advantages(each.turns[0]) for each in others] == [[0.0], [0.0]]
    assert together.baselines == alone.baselines and together.counts == alone.counts
    assert together.groups == alone.groups


def test_candidates_without_a_reward_leave_their_group() -> None:
    turns = [turn("planner", 0.0, 9.0, 1.0), turn("planner", 0.0, 9.0), turn("planner", 9.0, 9.0)]
    for each in (turns[0].candidates[1], turns[1].candidates[1], *turns[2].candidates):
        each.scored = False
    batch = make_groups([episode("a", *turns)], config())
    (group,) = batch.groups["planner"]
    assert [answer.token_ids for answer in group.answers] == [[0], [2]]
    assert group.advantages == pytest.approx([-math.sqrt(0.5), math.sqrt(0.5)], abs=1e-5)
    assert advantages(turns[0]) == [group.advantages[0], 0.0, group.advantages[1]]
    assert advantages(turns[1]) == [0.0, 0.0] and advantages(turns[2]) == [0.0, 0.0]
    assert batch.counts["planner"] == GroupCounts(2, 1, 0, 1), "a group of one, and none without rewards"


def test_a_missing_reward_makes_the_total_of_its_role_unknown() -> None:
    siblings = [played("a", 1.0, None), played("b", 1.0, 1.0), played("c", 0.0, 0.0)]
    groups = make_groups(siblings, config()).groups["planner"]
    assert [group.episode for group in groups] == ["b", "b", "c", "c"]
