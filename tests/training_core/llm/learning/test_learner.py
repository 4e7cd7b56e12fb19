"""The learner: fresh data has ratio 1, batches add up, bad data is refused, and it learns."""

import math

import pytest
import torch

from tests.training_core.llm.toys import TOKENIZER, make_group, make_model
from training_core.config.algorithms import AtGrpo
from training_core.config.models import Learner as LearnerSettings
from training_core.config.models import Policy
from training_core.errors import StalePolicy
from training_core.llm.generation.base import SamplingSettings
from training_core.llm.generation.torch_engine import TorchEngine
from training_core.llm.learning.learner import Learner
from training_core.llm.learning.schedules import learning_rate
from training_core.types import Group, NoiseKey, Prompt

PROMPTS = [[6, 7, 8, 9], [10, 11], [12, 13, 14, 15, 16]]
ANSWERS = [[[7, 8, 2], [9, 2], [10, 11, 12]], [[20, 2], [21, 22, 2]], [[6, 6, 6, 2], [9, 2]]]
ADVANTAGES = [[1.0, -1.0, 0.5], [0.7, -0.7], [-2.0, 2.0]]


def learner(algorithm: AtGrpo | None = None, **settings: object) -> Learner:
    policy = Policy(learner=LearnerSettings(**{"schedule": "constant", **settings}))
    return Learner(policy, algorithm or AtGrpo(), make_model(), 10)


def groups(temperature: float = 1.0) -> list[Group]:
    model = make_model()
    return [
        make_group(model, *parts, temperature=temperature)
        for parts in zip(PROMPTS, ANSWERS, ADVANTAGES, strict=True)
    ]


@pytest.mark.parametrize("temperature", [1.0, 0.7])
@pytest.mark.parametrize("packing", [True, False])
def test_fresh_data_has_ratio_one(temperature: float, packing: bool) -> None:
    result = learner(packing=packing).update(groups(temperature), 1, 0)
    note = result.annotations[("e6", 0)]
    assert all(ratio == pytest.approx(1.0, abs=1e-4) for answer in note.ratios for ratio in answer)
    assert result.metrics["ratio_max"] == pytest.approx(1.0, abs=1e-4)
    assert result.metrics["clip_fraction"] == 0.0


def test_what_an_engine_samples_has_ratio_one() -> None:
    model = make_model()
    settings = SamplingSettings(temperature=0.7, top_p=0.9, max_tokens=5)
    prompts = [Prompt(ids, 4, NoiseKey(0, 0, 1, task, 0, 0)) for task, ids in enumerate(PROMPTS)]
    sampled = TorchEngine(model, TOKENIZER).generate(prompts, settings)
    data = [
        Group(f"e{task}", 0, prompt.token_ids, answers, [0.0] * 4, [1.0, -1.0, 0.0, 0.0], 0.7, 0, 0.9)
        for task, (prompt, answers) in enumerate(zip(prompts, sampled, strict=True))
    ]
    result = learner().update(data, 1, 0)
    for group in data:
        note = result.annotations[(group.episode, 0)]
        for answer, ratios, logprobs in zip(group.answers, note.ratios, note.training_logprobs, strict=True):
            assert ratios == pytest.approx([1.0] * len(answer.token_ids), abs=1e-4)
            assert logprobs == pytest.approx(answer.logprobs, abs=1e-4)


@pytest.mark.parametrize("average", ["token", "sequence"])
@pytest.mark.parametrize("packing", [True, False])
def test_micro_batches_add_up_to_one_big_one(average: str, packing: bool) -> None:
    weights = []
    for limit in (10_000, 16):
        one = learner(
            AtGrpo(loss_average=average, kl_coefficient=0.1, entropy_coefficient=0.01),
            packing=packing,
            micro_batch_tokens=limit,
        )
        one.update(groups(), 1, 0)
        weights.append(torch.cat([weight.flatten() for weight in one.model.parameters()]))
    assert (weights[0] - weights[1]).abs().max() < 1e-5


def test_packed_and_single_rows_learn_the_same() -> None:
    weights = []
    for packing in (True, False):
        one = learner(packing=packing)
        assert one.packed == packing
        one.update(groups(), 1, 0)
        weights.append(torch.cat([weight.flatten() for weight in one.model.parameters()]))
    assert (weights[0] - weights[1]).abs().max() < 1e-5


def test_the_loss_by_hand() -> None:
    result = learner().update(groups(), 1, 0)
    tokens = sum(len(answer) for group in ANSWERS for answer in group)
    wanted = (
        -sum(
            len(a) * v for g, vs in zip(ANSWERS, ADVANTAGES, strict=True) for a, v in zip(g, vs, strict=True)
        )
        / tokens
    )
    assert result.metrics["loss"] == pytest.approx(wanted, abs=1e-5)


def test_it_raises_what_was_better_and_lowers_what_was_worse() -> None:
    one = learner(learning_rate=1e-3, max_grad_norm=0.0)
    before = one.update(groups(), 1, 0).annotations[("e12", 0)]
    after = one.update(groups(), 2, 0).annotations[("e12", 0)]
    assert sum(after.training_logprobs[0]) < sum(before.training_logprobs[0])
    assert sum(after.training_logprobs[1]) > sum(before.training_logprobs[1])


def test_a_solvable_toy_is_solved() -> None:
    """One prompt, reward for the word w3 alone: its probability goes to nearly 1."""
    model = make_model()
    engine = TorchEngine(model, TOKENIZER)
    policy = Policy(learner=LearnerSettings(learning_rate=3e-3, schedule="constant"))
    one = Learner(policy, AtGrpo(), model, 60)
    good = TOKENIZER.convert_tokens_to_ids("w3")
    shares = []
    for iteration in range(1, 61):
        prompt = Prompt([6, 7], 32, NoiseKey(0, 0, iteration, 0, 0, 0))
        answers = engine.generate([prompt], SamplingSettings(max_tokens=1))[0]
        rewards = torch.tensor([float(answer.token_ids[0] == good) for answer in answers])
        shares.append(rewards.mean().item())
        spread = ((rewards - rewards.mean()) / (rewards.std() + 1e-6)).tolist()
        one.update(
            [Group("e", 0, prompt.token_ids, answers, rewards.tolist(), spread, 1.0, 0, 1.0)],
            iteration,
            engine.version,
        )
        engine.version += 1
    assert sum(shares[:3]) / 3 < 0.3
    assert sum(shares[-10:]) / 10 > 0.95


def test_stale_tokens_are_refused_by_both_versions_names() -> None:
    with pytest.raises(StalePolicy, match="sampled by version 0, but the policy is at version 2"):
        learner().update(groups(), 1, 2)


def test_a_step_whose_gradient_is_not_finite_is_skipped_and_counted() -> None:
    one = learner()
    before = [weight.clone() for weight in one.model.parameters()]
    bad = groups()
    bad[0].advantages[0] = math.nan
    result = one.update(bad, 1, 0)
    assert result.metrics["skipped_steps"] == 1.0
    assert all(torch.equal(old, new) for old, new in zip(before, one.model.parameters(), strict=True))


def test_nothing_to_learn_from_changes_nothing() -> None:
    one = learner()
    before = [weight.clone() for weight in one.model.parameters()]
    assert one.update([], 1, 0).metrics == {"lr": pytest.approx(1e-3), "trained_groups": 0.0}
    assert all(torch.equal(old, new) for old, new in zip(before, one.model.parameters(), strict=True))


def test_the_kl_pulls_back_to_the_base() -> None:
    kls = {}
    for coefficient in (1e-9, 1.0):
        one = learner(AtGrpo(kl_coefficient=coefficient), learning_rate=3e-3)
        for iteration in range(1, 15):
            kls[coefficient] = one.update(groups(), iteration, 0).metrics["kl"]
    assert kls[1.0] < 0.5 * kls[1e-9]


def test_learning_rates_by_hand() -> None:
    cosine = LearnerSettings(
        learning_rate=1.0, final_learning_rate=0.0, schedule="cosine", warmup_iterations=1
    )
    rates = [learning_rate(cosine, iteration, 6) for iteration in range(1, 7)]
    assert rates == pytest.approx(
        [0.5, 1.0, (1 + math.cos(math.pi / 4)) / 2, 0.5, (1 - math.cos(math.pi / 4)) / 2, 0.0], abs=1e-12
    )
    linear = LearnerSettings(learning_rate=1.0, final_learning_rate=0.2, schedule="linear")
    assert [learning_rate(linear, iteration, 5) for iteration in (1, 3, 5)] == pytest.approx([1.0, 0.6, 0.2])
