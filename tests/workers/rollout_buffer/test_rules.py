"""RecordGroup rules by hand, with slime's numbers."""

from math import sqrt
from typing import Any

import pytest

from workers.rollout_buffer.groups import Groups, OpenGroup, StoredRecord
from workers.rollout_buffer.rules import (
    BufferLimits,
    Record,
    checked_record,
    halved_duplicates,
    make_rules,
)

LIMITS = BufferLimits(group_size=4, timeout=300.0)


def record(instance: str, reward: Any, uid: str = "") -> Record:
    return {
        "uid": uid or f"{instance}-{reward}",
        "instance_id": instance,
        "messages": [{"role": "user", "content": "?"}],
        "reward": reward,
    }


def groups(limits: BufferLimits = LIMITS, **hooks: Any) -> tuple[Groups, list[OpenGroup]]:
    dropped: list[OpenGroup] = []
    return Groups(limits, make_rules(limits, hooks), dropped.append), dropped


def fill(into: Groups, instance: str, rewards: list[float], now: float = 0.0) -> None:
    for place, reward in enumerate(rewards):
        into.add(StoredRecord(place, record(instance, reward, f"{instance}-{place}-{now}")), now)


def test_rewards_are_normalised_and_scaled_to_a_complete_group() -> None:
    rules = make_rules(LIMITS, {})
    found = rules.normalize_group_data([record("a", reward) for reward in (1.0, 0.0, 0.0, -1.0)])
    mean, scale = 1 / 3, 4 / 3
    std = sqrt(((1 - mean) ** 2 + 2 * mean**2) / 3)
    expected = [(1 - mean) / (std + 1e-8) * scale, *[(0 - mean) / (std + 1e-8) * scale] * 2, -1.0]
    assert [each["reward"] for each in found] == pytest.approx(expected)


def test_equal_rewards_become_zero() -> None:
    found = make_rules(LIMITS, {}).normalize_group_data([record("a", 0.5), record("a", 0.5)])
    assert [each["reward"] for each in found] == [0.0, 0.0]


def test_duplicates_pad_a_group_and_halve_rewards() -> None:
    found = halved_duplicates([record("a", 2.0, "x"), record("a", -1.0, "y"), record("a", 4.0, "z")], 4)
    assert [each["reward"] for each in found] == [1.0, -1.0, 4.0, 1.0]
    assert len({each["uid"] for each in found}) == 4


def test_a_complete_group_is_ready_and_the_next_record_opens_another() -> None:
    held, dropped = groups()
    fill(held, "a", [1.0, 0.0, 0.0, 0.5, 0.25])
    assert [len(group.stored) for group in held.ready] == [4]
    assert len(held.open["a"].stored) == 1
    assert not dropped and held.held == 5


def test_a_complete_group_with_too_few_valid_records_is_dropped() -> None:
    held, dropped = groups()
    fill(held, "a", [1.0, -1.0, -2.0, 0.0])  # 2 of 4 are greater than -1; 0.7 are needed
    assert [group.instance for group in dropped] == ["a"]
    assert not held.ready and not held.open and held.held == 0
    fill(held, "b", [1.0, -1.0, 0.0, 0.0])  # 3 of 4
    assert [group.instance for group in held.ready] == ["b"]


def test_a_timed_out_group_is_kept_if_it_has_enough_records() -> None:
    held, dropped = groups()
    fill(held, "enough", [1.0, 0.0, 0.5], now=10.0)  # 3 of 4 >= 0.7
    fill(held, "few", [1.0, 0.0], now=10.0)
    fill(held, "fresh", [1.0], now=200.0)
    assert held.sweep(310.0) == 0, "300 s have not passed"
    assert held.sweep(310.1) == 2
    assert [group.instance for group in held.ready] == ["enough"]
    assert [group.instance for group in dropped] == ["few"]
    assert list(held.open) == ["fresh"]
    assert not held.due(500.0) and held.due(500.1)


def test_a_full_buffer_refuses_new_groups_and_completes_open_ones() -> None:
    held, _ = groups(BufferLimits(group_size=4, max_records=2))
    fill(held, "a", [1.0, 0.0])
    assert held.takes("a") and not held.takes("b")
    fill(held, "a", [1.0, 0.0])
    held.take(None)
    assert held.takes("b")


def test_groups_are_taken_oldest_first_one_per_instance() -> None:
    held, _ = groups(BufferLimits(group_size=2))
    for instance in ("a", "b", "a", "c"):
        fill(held, instance, [1.0, 0.0])
    assert [group.instance for group in held.take(None)] == ["a", "b"]
    assert [group.instance for group in held.take(1)] == ["a"], "at least one"
    assert [group.instance for group in held.take(10)] == ["c"]


def test_a_plugins_rule_replaces_the_default() -> None:
    held, dropped = groups(is_valid_group=lambda instance, group: (instance == "good", len(group) == 2))
    fill(held, "good", [-5.0, -5.0])
    fill(held, "bad", [1.0, 1.0])
    assert [group.instance for group in held.ready] == ["good"]
    assert [group.instance for group in dropped] == ["bad"]


def test_numbers_may_be_text_and_raw_rewards_are_stored() -> None:
    found = checked_record(record("a", "0.5") | {"instance_id": 7})
    assert (found["reward"], found["raw_reward"], found["instance_id"]) == (0.5, 0.5, "7")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"reward": "nan"}, "finite"),
        ({"reward": "good"}, "not a number"),
        ({"uid": None}, "no uid"),
        ({"messages": "hello"}, "chat messages"),
        (
            {"messages": [{"role": "assistant", "token_ids": "1 2"}]},
            r"messages\[0\].token_ids is a list of whole numbers",
        ),
        ({"messages": [{"role": "assistant", "token_ids": [1, True]}]}, "whole numbers"),
        (
            {"messages": [{"role": "assistant", "token_ids": [1, 2], "logprobs": [-1.0]}]},
            "2 token_ids and 1 logprobs",
        ),
        (
            {"messages": [{"role": "assistant", "token_ids": [1], "versions": [0, 0]}]},
            "1 token_ids and 2 versions",
        ),
    ],
)
def test_an_invalid_record_is_refused_with_its_field(change: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        checked_record(record("a", 1.0) | change)
