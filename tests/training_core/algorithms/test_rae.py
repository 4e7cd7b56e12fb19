"""Role-conditioned advantages: by hand, in closed form, and in parts."""

import numpy as np
import pytest

from training_core.algorithms.rae import role_advantages


def test_two_roles_by_hand() -> None:
    rewards = np.array([1.0, -1.0, 1.0, 0.0])
    found, after = role_advantages(rewards, ["first", "second", "first", "second"], {"second": -2.0}, 0.75)
    # first: b = 0.25, A = 0.75; then b = 0.1875 + 0.25 = 0.4375, A = 0.5625
    # second: b = -1.5 - 0.25 = -1.75, A = 0.75; then b = -1.3125, A = 1.3125
    assert found.tolist() == [0.75, 0.75, 0.5625, 1.3125]
    assert after == {"first": 0.4375, "second": -1.3125}


def test_a_baseline_is_the_weighted_sum_of_what_was_earned() -> None:
    """b_n = (1 - decay) x sum of decay^(n - i) R_i, and a reward that stays the same ends with advantage 0."""
    rewards, decay = np.random.default_rng(0).normal(size=50), 0.9
    found, after = role_advantages(rewards, ["a"] * 50, {}, decay)
    for place in range(50):
        closed = (1 - decay) * sum(decay ** (place - i) * rewards[i] for i in range(place + 1))
        assert found[place] == pytest.approx(rewards[place] - closed, abs=1e-12)
    assert after["a"] == pytest.approx(closed, abs=1e-12)
    constant, _ = role_advantages(np.full(500, 3.0), ["a"] * 500, {}, decay)
    assert constant[0] == pytest.approx(2.7) and abs(constant[-1]) < 1e-12


def test_in_two_parts_it_is_the_same_to_the_last_bit() -> None:
    rewards, roles = np.random.default_rng(1).normal(size=20), ["a", "b"] * 10
    whole, at_the_end = role_advantages(rewards, roles, {}, 0.95)
    first, between = role_advantages(rewards[:7], roles[:7], {}, 0.95)
    second, after = role_advantages(rewards[7:], roles[7:], between, 0.95)
    assert [*first, *second] == whole.tolist() and after == at_the_end


def test_what_was_there_before_is_not_changed() -> None:
    before = {"a": 1.0}
    role_advantages(np.array([0.0]), ["a"], before, 0.5)
    assert before == {"a": 1.0}
