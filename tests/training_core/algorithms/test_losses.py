"""Losses, policy losses and corrections against numbers by hand and naive loops."""

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, tensor

from training_core.algorithms.losses import (
    POLICY_LOSSES,
    Bounds,
    Tokens,
    clipped_policy_loss,
    correction_weights,
    kl_penalty,
    sequence_means,
    token_entropies,
    token_weights,
)

LENGTHS = tensor([2, 1, 3])


def tokens(ratios: list[float], advantages: list[float], lengths: Tensor = LENGTHS) -> Tokens:
    logprobs = tensor(ratios, dtype=torch.float64).log().requires_grad_()
    return Tokens(
        logprobs, torch.zeros_like(logprobs).detach(), tensor(advantages, dtype=torch.float64), lengths
    )


def gradient(name: str, made: Tokens, bounds: Bounds) -> list[float]:
    loss, _ = POLICY_LOSSES[name](made, bounds)
    found: list[float] = torch.autograd.grad(loss.sum(), made.logprobs)[0].tolist()
    return found


def test_gspo_by_hand() -> None:
    # responses: ratios (4, 1) -> geometric mean 2; (0.5) -> 0.5; (1, 1, 1.331) -> 1.1
    made = tokens([4.0, 1.0, 0.5, 1.0, 1.0, 1.331], [1.0, 1.0, -1.0, 2.0, 2.0, 2.0])
    loss, clipped = POLICY_LOSSES["sequence_clip"](made, Bounds(0.2, 0.2))
    assert loss.tolist() == pytest.approx([-1.2, -1.2, 0.8, -2.2, -2.2, -2.2])
    assert clipped.tolist() == [True, True, True, False, False, False]
    # d/dlogprob of -s A is -s A for each token of an unclipped response; a clipped response has none at all
    assert gradient("sequence_clip", made, Bounds(0.2, 0.2)) == pytest.approx(
        [0.0, 0.0, 0.0, -2.2, -2.2, -2.2]
    )


def test_gspo_gradient_is_that_of_its_sequence_objective() -> None:
    made = tokens([1.1, 0.9, 1.05, 0.97, 1.02, 1.0], [0.5, 0.5, -1.0, 2.0, 2.0, 2.0])
    got = gradient("sequence_clip", made, Bounds(0.5, 0.5))
    # equation 5: per response s_i A_i, averaged over its tokens by the caller's weights 1 / |y_i|
    logprobs = made.logprobs.detach().clone().requires_grad_()
    begin, total = 0, torch.zeros((), dtype=torch.float64)
    for length in LENGTHS.tolist():
        part = logprobs[begin : begin + length]
        total = total - part.mean().exp() * made.advantages[begin]
        begin += length
    wanted = torch.autograd.grad(total, logprobs)[0]
    weights = (1.0 / LENGTHS.double()).repeat_interleave(LENGTHS)
    assert (tensor(got, dtype=torch.float64) * weights).tolist() == pytest.approx(wanted.tolist(), abs=1e-12)


def test_cispo_by_hand() -> None:
    made = tokens([6.0, 0.5, 1.0, 1.0, 1.0, 2.0], [1.0, 2.0, -1.0, 0.0, 1.0, -1.0])
    loss, clipped = POLICY_LOSSES["cispo"](made, Bounds(1.0, 4.0))
    assert clipped.tolist() == [True, False, False, False, False, False]
    assert loss[0].item() == pytest.approx(-5.0 * math.log(6.0))
    # the clipped token still has a gradient: its weight times its advantage
    assert gradient("cispo", made, Bounds(1.0, 4.0)) == pytest.approx([-5.0, -1.0, 1.0, 0.0, -1.0, 2.0])


def test_cispo_bounds_small_weights_too() -> None:
    made = tokens([0.5] * 6, [1.0] * 6)
    loss, clipped = POLICY_LOSSES["cispo"](made, Bounds(0.2, 4.0))
    assert clipped.all() and loss.tolist() == pytest.approx([0.8 * math.log(2.0)] * 6)


def test_gspo_bounds_the_loss_of_bad_responses() -> None:
    made = tokens([5.0] * 6, [-1.0] * 6)
    assert POLICY_LOSSES["sequence_clip"](made, Bounds(0.2, 0.2, 3.0))[0].tolist() == pytest.approx([3.0] * 6)


def test_reinforce_ignores_the_sampler_and_clips_nothing() -> None:
    made = tokens([6.0, 0.5, 1.0, 1.0, 1.0, 2.0], [1.0, 2.0, -1.0, 0.0, 1.0, -1.0])
    assert gradient("reinforce", made, Bounds(0.1, 0.1)) == pytest.approx([-1.0, -2.0, 1.0, 0.0, -1.0, 1.0])
    clipped = POLICY_LOSSES["reinforce"](made, Bounds(0.1, 0.1))[1]
    assert clipped.dtype == torch.bool and not clipped.any()


def test_at_the_sampler_every_loss_has_the_policy_gradient() -> None:
    advantages = [1.0, 1.0, -1.0, 0.5, 0.5, 0.5]
    for name in POLICY_LOSSES:
        assert gradient(name, tokens([1.0] * 6, advantages), Bounds(0.2, 0.2, 3.0)) == pytest.approx(
            [-value for value in advantages]
        ), name


def test_sequence_means_with_an_empty_response() -> None:
    assert sequence_means(tensor([1.0, 3.0, 5.0]), tensor([2, 0, 1])).tolist() == [2.0, 2.0, 5.0]


@pytest.mark.parametrize(
    ("kind", "wanted"),
    [
        ("none", [1.0, 1.0, 1.0, 1.0]),
        ("truncate", [0.25, 1.0, 2.0, 2.0]),
        ("mask", [0.0, 1.0, 2.0, 0.0]),
        ("decoupled", [0.25, 1.0, 2.0, 0.0]),
    ],
)
def test_corrections_by_hand(kind: str, wanted: list[float]) -> None:
    start = tensor([0.25, 1.0, 2.0, 4.0]).log().requires_grad_()
    weights = correction_weights(start, torch.zeros(4), kind, 0.5, 2.0)  # type: ignore[arg-type]
    assert weights.tolist() == pytest.approx(wanted, abs=1e-6)
    assert not weights.requires_grad


def test_the_bounds_of_masked_weights_are_kept() -> None:
    """IcePop keeps floor <= w <= cap."""
    assert correction_weights(torch.zeros(1), torch.zeros(1), "mask", 1.0, 1.0).tolist() == [1.0]


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
