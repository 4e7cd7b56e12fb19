"""Generalised advantages by hand and by double loops; the value loss by hand."""

import pytest
import torch
from torch import Tensor

from training_core.algorithms.gae import last_token_rewards, token_advantages
from training_core.algorithms.losses import value_loss


def naive(rewards: list[float], values: list[float], discount: float, gae_lambda: float) -> list[float]:
    """One response, straight from equation 16: a sum over what is still to come, for each token anew."""
    after = [*values[1:], 0.0][: len(values)]
    deltas = [
        reward + discount * then - now for reward, then, now in zip(rewards, after, values, strict=True)
    ]
    return [
        sum((discount * gae_lambda) ** step * delta for step, delta in enumerate(deltas[place:]))
        for place in range(len(deltas))
    ]


def test_a_response_by_hand() -> None:
    rewards, values = torch.tensor([0.0, 0.0, 1.0]), torch.tensor([0.5, 0.25, 0.75])
    # deltas with discount 0.5: 0.125 - 0.5, 0.375 - 0.25, 1 - 0.75; decay 0.5 x 0.8 = 0.4
    # backwards: 0.25; 0.125 + 0.4 x 0.25 = 0.225; -0.375 + 0.4 x 0.225 = -0.285
    found = token_advantages(rewards, values, torch.tensor([3]), 0.5, 0.8)
    assert found.tolist() == pytest.approx([-0.285, 0.225, 0.25])


def test_lambda_1_is_the_monte_carlo_advantage_and_lambda_0_td() -> None:
    rewards, values, lengths = (
        torch.tensor([0.0, 2.0, 5.0]),
        torch.tensor([0.5, 0.25, 4.0]),
        torch.tensor([2, 1]),
    )
    assert token_advantages(rewards, values, lengths, 1.0, 1.0).tolist() == [1.5, 1.75, 1.0]
    assert token_advantages(rewards, values, lengths, 1.0, 0.0).tolist() == [-0.25, 1.75, 1.0]


@pytest.mark.parametrize(("discount", "gae_lambda"), [(1.0, 0.95), (0.9, 0.5), (1.0, 1.0), (0.7, 0.0)])
def test_responses_end_to_end_are_those_of_a_naive_loop(discount: float, gae_lambda: float) -> None:
    """No response sees its neighbour; one without tokens, in the middle and at the end, changes nothing."""
    lengths = torch.tensor([4, 0, 1, 7, 0])
    generator = torch.Generator().manual_seed(0)
    rewards, values = torch.randn(2, 12, generator=generator, dtype=torch.float64).unbind()
    found = token_advantages(rewards, values, lengths, discount, gae_lambda)

    def parts(tensor: Tensor) -> list[list[float]]:
        return [part.tolist() for part in tensor.split(lengths.tolist())]

    wanted = [
        value
        for earned, judged in zip(parts(rewards), parts(values), strict=True)
        for value in naive(earned, judged, discount, gae_lambda)
    ]
    assert found.tolist() == pytest.approx(wanted, abs=1e-12)


def test_nothing_to_judge_is_nothing() -> None:
    assert token_advantages(torch.zeros(0), torch.zeros(0), torch.tensor([0]), 1.0, 0.9).tolist() == []


def test_a_score_lies_on_the_last_token() -> None:
    scores, lengths = torch.tensor([3.0, 9.0, -1.0]), torch.tensor([2, 0, 1])
    assert last_token_rewards(scores, lengths).tolist() == [0.0, 3.0, -1.0]


def test_the_value_loss_takes_the_worse_of_bounded_and_unbounded() -> None:
    values = torch.tensor([1.0, 1.0, 0.1, -1.0, -1.0], requires_grad=True)
    old, returns = torch.zeros(5), torch.tensor([1.0, 2.0, 1.0, 1.0, -1.0])
    # bounded by 0.2: 0.2, 0.2, 0.1, -0.2, -0.2; errors: max(0, 0.8), max(1, 1.8), max(0.9, 0.9), max(2, 1.2), max(0, 0.8),
    # squared and halved
    losses = value_loss(values, old, returns, 0.2) / 2
    assert losses.tolist() == pytest.approx([0.32, 1.62, 0.405, 2.0, 0.32])
    losses.sum().backward()
    # who went too far towards its return is not drawn farther; who went the wrong way is drawn back
    assert values.grad is not None
    assert values.grad.tolist() == pytest.approx([0.0, 0.0, -0.9, -2.0, 0.0])
    assert value_loss(values, old, returns, None).tolist() == pytest.approx([0.0, 1.0, 0.81, 4.0, 0.0])
