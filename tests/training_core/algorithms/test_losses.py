"""Losses against numbers by hand."""

import math
from collections.abc import Callable

import pytest
import torch
from torch import tensor

from training_core.algorithms.losses import clipped_policy_loss, kl_penalty, token_entropies, token_weights

OLD = torch.zeros(6)
RATIOS = tensor([1.0, 1.5, 0.5, 1.5, 0.5, 5.0])
SIGNS = tensor([2.0, 1.0, 1.0, -1.0, -1.0, -1.0])


def test_the_clipped_loss_by_hand() -> None:
    loss, clipped = clipped_policy_loss(RATIOS.log(), SIGNS, 0.2, 0.3)
    # r A is kept where that loses more: gains are capped at 1.3, losses never below what was earned
    assert loss.tolist() == pytest.approx([-2.0, -1.3, -0.5, 1.5, 0.8, 5.0], abs=1e-6)
    assert clipped.tolist() == [False, True, False, False, True, False]


def test_dual_clip_bounds_the_loss_of_bad_tokens() -> None:
    loss, clipped = clipped_policy_loss(RATIOS.log(), SIGNS, 0.2, 0.3, dual_clip=3.0)
    assert loss[5].item() == pytest.approx(3.0)
    assert clipped[5]
    assert loss[:5].tolist() == pytest.approx([-2.0, -1.3, -0.5, 1.5, 0.8], abs=1e-6)


def test_clipped_tokens_have_no_gradient() -> None:
    logprobs = RATIOS.log().requires_grad_()
    loss, clipped = clipped_policy_loss(logprobs, SIGNS, 0.2, 0.3, dual_clip=3.0)
    loss.sum().backward()
    assert logprobs.grad is not None
    assert ((logprobs.grad == 0) == clipped).all()


def test_kl_estimators_by_hand_and_in_the_mean() -> None:
    ours, base = tensor([0.5, 0.3, 0.2]), tensor([0.2, 0.3, 0.5])
    exact = (ours * (ours / base).log()).sum().item()
    for name in ("k1", "k3"):
        mean = (ours * kl_penalty(ours.log(), base.log(), name)).sum().item()
        assert mean == pytest.approx(exact, abs=1e-6)
    assert kl_penalty(tensor([0.5]), tensor([0.0]), "k2").item() == pytest.approx(0.125)
    assert kl_penalty(tensor([0.5]), tensor([0.0]), "k3").item() == pytest.approx(
        math.exp(-0.5) - 1 + 0.5, abs=1e-6
    )
    assert (kl_penalty(ours.log(), base.log(), "k3") >= 0).all()


def mean_gradient(of: Callable[[torch.Tensor], torch.Tensor]) -> list[float]:
    """Gradient in the logits of a policy, of what is made from its log-probabilities."""
    logits = tensor([0.3, -0.2, 0.5], dtype=torch.float64, requires_grad=True)
    gradient: list[float] = torch.autograd.grad(of(logits.log_softmax(0)).sum(), logits)[0].tolist()
    return gradient


def test_the_gradients_of_the_kl_estimators_in_the_mean() -> None:
    base = tensor([0.2, 0.3, 0.5], dtype=torch.float64).log()
    away = mean_gradient(lambda ours: ours.exp() * (ours - base))
    back = mean_gradient(lambda ours: base.exp() * (base - ours))
    for estimator, wanted in (("k1", [0.0] * 3), ("k2", away), ("k3", back)):
        estimate = mean_gradient(
            lambda ours, name=estimator: ours.exp().detach() * kl_penalty(ours, base, name)
        )
        assert estimate == pytest.approx(wanted, abs=1e-12), estimator


def test_entropy_by_hand_with_a_cut_token() -> None:
    log_probs = tensor([[0.5, 0.5, 0.0], [1.0, 0.0, 0.0]]).log()
    assert token_entropies(log_probs).tolist() == pytest.approx([math.log(2), 0.0], abs=1e-6)


def test_weights_by_hand() -> None:
    lengths = tensor([1, 3])
    assert token_weights(lengths, "token").tolist() == pytest.approx([0.25] * 4)
    assert token_weights(tensor([1]), "token").tolist() == [1.0]
    assert token_weights(lengths, "sequence").tolist() == pytest.approx([0.5, 1 / 6, 1 / 6, 1 / 6])
