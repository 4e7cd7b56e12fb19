"""Distributions of actions, against torch.distributions."""

import numpy as np
import pytest
import torch
from torch import distributions

from training_core.marl.environments.base import Choices, Continuous, SeveralChoices
from training_core.marl.networks.heads import ChoiceHead, GaussianHead, make_head, masked


def test_choices_have_the_numbers_of_a_categorical():
    out = torch.randn(6, 4, generator=torch.Generator().manual_seed(0))
    raw = torch.tensor([0, 1, 2, 3, 0, 1])
    known = distributions.Categorical(logits=out)
    log_prob, entropy = ChoiceHead(Choices(4)).log_prob(out, raw)
    assert torch.allclose(log_prob, known.log_prob(raw))
    assert torch.allclose(entropy, known.entropy())


def test_draws_follow_the_probabilities():
    head = ChoiceHead(Choices(3))
    probabilities = torch.tensor([0.2, 0.5, 0.3])
    noise = head.noise((40_000,), torch.Generator().manual_seed(1))
    drawn = head.act(probabilities.log().expand(40_000, 3), noise)
    shares = torch.bincount(drawn, minlength=3) / 40_000
    assert shares.tolist() == pytest.approx(probabilities.tolist(), abs=0.01)
    assert head.act(probabilities.log(), None) == 1


def test_what_a_mask_forbids_is_never_drawn_and_counts_for_nothing():
    head = ChoiceHead(Choices(3))
    mask = torch.tensor([True, False, True])
    out = masked(torch.tensor([0.0, 50.0, 1.0]), mask)
    drawn = head.act(out.expand(1000, 3), head.noise((1000,), torch.Generator().manual_seed(1)))
    assert set(drawn.tolist()) == {0, 2}
    assert head.act(out, None) == 2
    log_prob, entropy = head.log_prob(out, torch.tensor(2))
    known = distributions.Categorical(logits=torch.tensor([0.0, 1.0]))
    assert float(log_prob) == pytest.approx(float(known.log_prob(torch.tensor(1))))
    assert float(entropy) == pytest.approx(float(known.entropy()))


def test_choices_from_several_sets_are_independent_categoricals():
    head = make_head(SeveralChoices((3, 2)))
    generator = torch.Generator().manual_seed(2)
    out = masked(torch.randn(5, generator=generator), torch.tensor([True, False, True, True, True]))
    sets = [distributions.Categorical(logits=part) for part in out.split([3, 2])]
    drawn = head.act(out.expand(40_000, 5), head.noise((40_000,), generator))
    assert drawn.shape == (40_000, 2) and head.outputs == 5
    together = torch.bincount(drawn[:, 0] * 2 + drawn[:, 1], minlength=6).double() / 40_000
    expected = (sets[0].probs[:, None] * sets[1].probs[None]).flatten().double()
    assert together.tolist() == pytest.approx(expected.tolist(), abs=0.01) and together[2:4].sum() == 0
    log_prob, entropy = head.log_prob(out.expand(40_000, 5), drawn)
    assert torch.allclose(log_prob, sum(one.log_prob(drawn[:, k]) for k, one in enumerate(sets)), atol=1e-5)
    assert float(entropy[0]) == pytest.approx(float(sum(one.entropy() for one in sets)), abs=1e-5)
    likeliest = head.act(out, None).tolist()
    assert likeliest == [int(one.probs.argmax()) for one in sets]
    assert head.actions(drawn).numpy().dtype == np.int64


def test_nobody_who_may_do_nothing_spoils_the_loss():
    out = masked(torch.randn(3, requires_grad=True), torch.zeros(3, dtype=torch.bool))
    log_prob, entropy = ChoiceHead(Choices(3)).log_prob(out, torch.tensor(1))
    (log_prob + entropy).backward()
    assert torch.isfinite(log_prob)


def test_continuous_actions_have_the_density_of_the_squashed_gaussian():
    head = GaussianHead(Continuous((-1.0, 0.0), (1.0, 4.0)))
    generator = torch.Generator().manual_seed(0)
    out = torch.randn(7, 4, generator=generator) * 0.5
    raw = head.act(out, head.noise((7,), generator))
    mean, log_std = out.chunk(2, -1)
    squash = [
        distributions.TanhTransform(),
        distributions.AffineTransform(torch.tensor([0.0, 2.0]), torch.tensor([1.0, 2.0])),
    ]
    known = distributions.Independent(
        distributions.TransformedDistribution(distributions.Normal(mean, log_std.exp()), squash), 1
    )
    actions = torch.from_numpy(np.asarray(head.actions(raw).numpy()))
    log_prob, _ = head.log_prob(out, raw)
    assert torch.allclose(log_prob, known.log_prob(actions), atol=1e-3)
    assert (actions >= torch.tensor([-1.0, 0.0])).all() and (actions <= torch.tensor([1.0, 4.0])).all()
    assert torch.equal(head.act(out, None), mean)


def test_the_entropy_estimate_is_unbiased():
    head = GaussianHead(Continuous((0.0,), (1.0,)))
    out = torch.tensor([0.3, -0.2]).expand(100_000, 2)
    raw = head.act(out, head.noise((100_000,), torch.Generator().manual_seed(5)))
    log_prob, entropy = head.log_prob(out, raw)
    assert float(entropy.mean()) == pytest.approx(-float(log_prob.mean()), abs=0.01)


def test_numbers_without_bounds_are_left_alone():
    head = GaussianHead(Continuous((float("-inf"),), (float("inf"),)))
    out, raw = torch.tensor([[0.5, 0.1]]), torch.tensor([[3.0]])
    assert head.actions(raw).numpy().tolist() == [[3.0]]
    known = distributions.Normal(out[:, 0], out[:, 1].exp())
    log_prob, entropy = head.log_prob(out, raw)
    assert torch.allclose(log_prob, known.log_prob(raw[:, 0]))
    assert torch.allclose(entropy, known.entropy())


LOG_STDS = [-1.0, -0.5, 0.0, 0.5, 1.0, 1.5]


@pytest.mark.parametrize("log_std", LOG_STDS)
@pytest.mark.parametrize("mean", [0.0, 0.7])
def test_the_entropy_gradient_is_that_of_a_reparametrised_estimate(mean, log_std):
    """400,000 draws of -log p(action), differentiated through the draws."""
    squash = [distributions.TanhTransform(cache_size=1), distributions.AffineTransform(0.5, 0.5)]
    out = torch.tensor([mean, log_std], dtype=torch.float64, requires_grad=True)
    normal = distributions.Normal(out[0], out[1].exp())
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        raw = normal.rsample((400_000,))
    slope = sum(
        part.log_abs_det_jacobian(x, y)
        for part, x, y in ((squash[0], raw, raw.tanh()), (squash[1], raw.tanh(), None))
    )
    estimate = (slope - normal.log_prob(raw)).mean()
    (expected,) = torch.autograd.grad(estimate, out)
    mine = torch.tensor([mean, log_std], requires_grad=True)
    _, entropy = GaussianHead(Continuous((0.0,), (1.0,))).log_prob(mine, torch.tensor([0.2]))
    (found,) = torch.autograd.grad(entropy, mine)
    assert entropy.item() == pytest.approx(estimate.item(), abs=0.02)
    assert found.tolist() == pytest.approx(expected.tolist(), abs=0.03, rel=0.01)


@pytest.mark.slow
def test_the_entropy_bonus_peaks_at_the_widest_action_distribution():
    """Between log_std -0.5 (gradient +0.43) and 0 (-0.21)."""
    head = GaussianHead(Continuous((-1.0,), (1.0,)))
    out = torch.tensor([0.0, 1.9], requires_grad=True)
    adam = torch.optim.Adam([out], lr=0.02)
    for _ in range(600):
        adam.zero_grad()
        (-head.log_prob(out, torch.tensor([0.0]))[1]).backward()
        adam.step()
    out = out.detach()
    assert -0.5 < float(out[1]) < 0.0
    assert float(head.log_prob(out, torch.tensor([0.0]))[1]) == pytest.approx(np.log(2), abs=0.03)


def test_a_standard_deviation_beyond_its_bounds_comes_back():
    """The action is likelier with a smaller deviation than the upper bound, or a larger one than the lower."""
    head = GaussianHead(Continuous((-1.0,), (1.0,)))
    for start, raw in ((3.5, 0.1), (-7.0, 2.0)):
        for likelier in (True, False):
            out = torch.tensor([0.0, start], requires_grad=True)
            log_prob, _ = head.log_prob(out, torch.tensor([raw]))
            (-log_prob if likelier else log_prob).backward()
            back = float(out.grad[1]) * np.sign(start)
            assert back > 0 if likelier else back == 0
