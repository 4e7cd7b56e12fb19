"""The version check: refused with both versions named, or left out and counted."""

import pytest

from tests.workers.driver.builders import group
from training_core.errors import StalePolicy
from workers.actors.policy_workers import check_versions, check_weights, spread


def test_fresh_groups_pass_untouched() -> None:
    groups = [group([[3, 3], [3]])]
    checked = check_versions(groups, 3, "planner", "error")
    assert checked.groups == groups
    assert (checked.dropped, checked.answers, checked.lag) == (0, 2, 0)


def test_error_names_both_versions() -> None:
    with pytest.raises(StalePolicy, match=r"at version 3, but .* tokens of version 2"):
        check_versions([group([[3, 3], [3, 2]])], 3, "planner", "error")


def test_drop_leaves_out_the_stale_answer_with_its_advantage() -> None:
    checked = check_versions([group([[3], [3, 1], [3]]), group([[2], [2]])], 3, "planner", "drop")
    assert [item.advantages for item in checked.groups] == [[0.0, 2.0]]
    assert (checked.dropped, checked.answers, checked.lag) == (3, 5, 4)
    (kept,) = checked.groups
    assert checked.indices == {(kept.episode, kept.turn): [0, 2]}
    assert spread([[1.0], [2.0]], [0, 2], 3) == [[1.0], [], [2.0]], "values stay with their answers"


def test_newer_tokens_are_stale_too() -> None:
    with pytest.raises(StalePolicy):
        check_versions([group([[4]])], 3, "planner", "error")


def test_weights_of_another_version_are_refused() -> None:
    check_weights(2, 2, "planner", "rollout-planner-0")
    with pytest.raises(StalePolicy, match="holds version 1 .* version 2 was asked for"):
        check_weights(1, 2, "planner", "rollout-planner-0")


def test_data_within_the_bound_passes_and_its_age_is_counted() -> None:
    groups = [group([[3, 3], [1, 2]])]
    checked = check_versions(groups, 3, "planner", "error", bound=2)
    assert checked.groups == groups
    assert (checked.dropped, checked.answers, checked.lag) == (0, 2, 2)


def test_data_beyond_the_bound_is_refused_or_left_out() -> None:
    groups = [group([[3, 3], [0, 3], [1]])]
    with pytest.raises(StalePolicy, match=r"tokens of version 0, 1, and rollout.staleness is 2"):
        check_versions(groups, 3, "planner", "error", bound=2)
    checked = check_versions(groups, 3, "planner", "drop", bound=2)
    assert [item.advantages for item in checked.groups] == [[0.0, 2.0]]
    assert checked.dropped == 1


def test_newer_tokens_are_never_within_the_bound() -> None:
    with pytest.raises(StalePolicy):
        check_versions([group([[1, 4]])], 3, "planner", "error", bound=5)
