"""PPO's losses, number by number."""

import math

import pytest
import torch
from torch import nn

from training_core.algorithms.losses import clipped_policy_loss, value_loss
from training_core.marl.learning.critics import ValueScale
from training_core.marl.learning.flat_adam import FlatAdam
from training_core.marl.learning.learner import approximate_kl, mean, ratio_statistics


def test_the_clipped_objective_by_hand():
    ratios = torch.tensor([1.0, 1.5, 0.5, 1.5, 0.5])
    advantages = torch.tensor([2.0, 1.0, 1.0, -1.0, -1.0])
    loss, _ = clipped_policy_loss(ratios.log(), advantages, 0.2, 0.2)
    # a ratio that has gone far in the good direction earns no more; in the bad one it costs in full
    assert loss.tolist() == pytest.approx([-2.0, -1.2, -0.5, 1.5, 0.8])


def test_value_clipping_by_hand():
    values, old, returns = (
        torch.tensor([3.0, 3.0, 1.1]),
        torch.tensor([1.0, 1.0, 1.0]),
        torch.tensor([3.0, 0.0, 2.0]),
    )
    assert value_loss(values, old, returns, None).tolist() == pytest.approx([0.0, 9.0, 0.81])
    # held at 1.5: (1.5 - 3)^2 > 0; (1.5 - 0)^2 < 9; within the limit: the same
    assert value_loss(values, old, returns, 0.5).tolist() == pytest.approx([2.25, 9.0, 0.81])


def test_figures_of_the_ratio():
    log_ratio = torch.tensor([0.0, math.log(1.5), math.log(0.5)])
    kl, clipped, average, square, largest = ratio_statistics(log_ratio, 0.2, None).tolist()
    assert kl == pytest.approx((0.5 - math.log(1.5) + -0.5 - math.log(0.5)) / 3)
    assert (clipped, average, largest) == (pytest.approx(2 / 3), pytest.approx(1.0), pytest.approx(1.5))
    assert square == pytest.approx((1 + 2.25 + 0.25) / 3)
    assert (approximate_kl(log_ratio) >= 0).all()


def test_weights_leave_samples_out():
    weights = torch.tensor([1.0, 0.0, 1.0])
    assert float(mean(torch.tensor([2.0, 50.0, 4.0]), weights)) == 3.0
    largest = ratio_statistics(torch.tensor([0.1, 5.0, 0.2]), 0.2, weights)[4]
    assert float(largest) == pytest.approx(math.exp(0.2))


def test_the_value_scale_keeps_what_values_mean():
    torch.manual_seed(0)
    layer, x = nn.Linear(3, 1), torch.randn(5, 3)
    scale = ValueScale()
    returns = torch.tensor([10.0, 20.0, 60.0])
    before = scale.denormalise(layer(x)).detach()
    scale.update(returns, [layer])
    assert scale.mean == 30.0
    assert scale.std == pytest.approx(float(returns.std(correction=0)))
    assert torch.allclose(scale.denormalise(layer(x)), before, atol=1e-4)
    assert torch.allclose(scale.normalise(scale.denormalise(returns)), returns, atol=1e-4)
    scale.update(torch.tensor([0.0]), [layer])
    assert scale.mean == 15.0  # the second of two
    assert torch.allclose(scale.denormalise(layer(x)), before, atol=1e-3)


@pytest.mark.parametrize("offset", [0.0, 1e3, 1e5])
def test_returns_far_from_zero_keep_their_spread(offset: float) -> None:
    generator = torch.Generator().manual_seed(0)
    scale = ValueScale()
    every = []
    for _ in range(10):
        every.append(offset + torch.randn(4096, generator=generator))
        scale.update(every[-1], [])
    whole = torch.cat(every).double()
    assert scale.mean == pytest.approx(float(whole.mean()), rel=1e-6, abs=1e-6)
    assert scale.std == pytest.approx(float(whole.std(correction=0)), rel=1e-4)


def test_one_vector_learns_as_torchs_adam_does():
    def made():
        torch.manual_seed(3)
        return nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))

    flat, plain = made(), made()
    ours = FlatAdam(flat, weight_decay=0.01, max_norm=0.5)
    ours.set_learning_rate(0.01)
    theirs = torch.optim.AdamW(plain.parameters(), lr=0.01, eps=1e-5, weight_decay=0.01)
    for step in range(5):
        x = torch.randn(16, 4, generator=torch.Generator().manual_seed(step))
        ours.zero_gradients()
        (flat(x) * 10).square().mean().backward()
        norm = ours.step()
        theirs.zero_grad()
        (plain(x) * 10).square().mean().backward()
        assert float(norm) == pytest.approx(
            float(nn.utils.clip_grad_norm_(plain.parameters(), 0.5)), rel=1e-5
        )
        theirs.step()
    for mine, other in zip(flat.parameters(), plain.parameters(), strict=True):
        assert torch.allclose(mine, other, atol=1e-6)


def test_a_gradient_that_is_no_number_changes_nothing():
    layer = nn.Linear(2, 1)
    before = layer.weight.detach().clone()
    adam = FlatAdam(layer, 0.0, 0.5)
    adam.set_learning_rate(0.1)
    adam.zero_gradients()
    (layer(torch.tensor([[float("inf"), 1.0]])) * 0.0).sum().backward()
    assert not torch.isfinite(adam.step())
    assert torch.equal(layer.weight, before)


def test_gradients_that_are_not_finite_change_nothing_after_ordinary_steps() -> None:
    """There are moments by then, which would move weights by themselves; weight decay would, too."""
    layer = torch.nn.Linear(3, 2)
    adam = FlatAdam(layer, weight_decay=0.1, max_norm=0.5)
    adam.set_learning_rate(0.01)
    for _ in range(5):
        adam.zero_gradients()
        layer(torch.ones(4, 3)).square().sum().backward()
        adam.step()
    weights, state = adam.weights.detach().clone(), adam.state_dict()
    adam.zero_gradients()
    (layer(torch.ones(4, 3)).sum() * float("nan")).backward()
    assert not torch.isfinite(adam.step())
    assert torch.equal(adam.weights, weights)
    assert all(torch.equal(tensor, state[name]) for name, tensor in adam.state_dict().items())
