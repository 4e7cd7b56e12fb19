"""Rules of groups by hand, with slime's numbers."""

from math import sqrt
from typing import Any

import pytest

from workers.rollout_buffer.rules import BufferLimits, Record, checked_record, halved_duplicates, make_rules

LIMITS = BufferLimits(group_size=4, timeout=300.0)


def record(instance: str, reward: Any, uid: str = "") -> Record:
    return {
        "uid": uid or f"{instance}-{reward}",
        "instance_id": instance,
        "messages": [{"role": "user", "content": "?"}],
        "reward": reward,
    }


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
