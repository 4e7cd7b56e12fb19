"""Advantages, by hand and against a loop that knows nothing of arrays."""

import pytest
import torch

from training_core.algorithms.gae import explained_variance, generalised_advantages


def flags(*numbers):
    return torch.tensor(numbers, dtype=torch.bool)


def test_by_hand():
    # step 1 terminates; step 2 is cut off with V(s') = 8; gamma 0.5, lambda 0.5
    found = generalised_advantages(
        rewards=torch.tensor([1.0, 2.0, 3.0]),
        values=torch.tensor([4.0, 6.0, 2.0]),
        next_values=torch.tensor([6.0, 100.0, 8.0]),
        terminated=flags(0, 1, 0),
        truncated=flags(0, 0, 1),
        discount=0.5,
        gae_lambda=0.5,
    )
    # deltas: 1 + 3 - 4 = 0; 2 - 6 = -4; 3 + 4 - 2 = 5
    assert found.tolist() == [0.0 + 0.25 * -4.0, -4.0, 5.0]


def test_a_failed_step_has_no_advantage_and_ends_the_trajectory():
    # step 2 failed; gamma 0.5, lambda 0.5
    found = generalised_advantages(
        rewards=torch.tensor([1.0, 2.0, 50.0, 3.0]),
        values=torch.tensor([4.0, 6.0, 2.0, 1.0]),
        next_values=torch.tensor([6.0, 2.0, torch.nan, 8.0]),
        terminated=flags(0, 0, 0, 0),
        truncated=flags(0, 0, 1, 0),
        discount=0.5,
        gae_lambda=0.5,
        failed=flags(0, 0, 1, 0),
    )
    # deltas: 1 + 3 - 4 = 0; 2 + 1 - 6 = -3; none; 3 + 4 - 1 = 6
    assert found.tolist() == [0.0 + 0.25 * -3.0, -3.0, 0.0, 6.0]


def naive(rewards, values, next_values, terminated, truncated, discount, gae_lambda):
    """The definition, sum by sum: A_t = sum over k of (discount lambda)^k delta_{t+k}, up to the episode's end."""
    steps = len(rewards)
    result = []
    for t in range(steps):
        total, weight = 0.0, 1.0
        for k in range(t, steps):
            follows = 0.0 if terminated[k] else next_values[k]
            total += weight * (rewards[k] + discount * follows - values[k])
            if terminated[k] or truncated[k]:
                break
            weight *= discount * gae_lambda
        result.append(total)
    return result


@pytest.mark.parametrize("seed", range(3))
def test_against_the_definition(seed):
    generator = torch.Generator().manual_seed(seed)
    draw = lambda: torch.randn(30, 4, generator=generator)  # noqa: E731
    rewards, values, next_values = draw(), draw(), draw()
    terminated, truncated = draw() > 1.2, draw() > 1.2
    found = generalised_advantages(rewards, values, next_values, terminated, truncated, 0.97, 0.9)
    for column in range(4):
        parts = [x[:, column].tolist() for x in (rewards, values, next_values, terminated, truncated)]
        assert found[:, column].tolist() == pytest.approx(naive(*parts, 0.97, 0.9), abs=1e-5)


def test_explained_variance():
    returns = torch.tensor([1.0, 2.0, 3.0])
    assert explained_variance(returns, returns) == 1.0
    assert explained_variance(torch.full((3,), 7.0), returns) == pytest.approx(0.0)
    assert explained_variance(torch.tensor([2.0, 2.0, 2.5]), returns) == pytest.approx(
        1 - 0.3889 / 0.6667, abs=1e-3
    )
    assert explained_variance(returns, torch.ones(3)) == 0.0
