"""The learner: fresh data has ratio 1, batches add up, bad data is refused, and it learns."""

import copy
import math
from typing import Any

import pytest
import torch

from tests.training_core.llm.toys import TOKENIZER, make_group, make_model
from training_core.algorithms.config import AtGrpo
from training_core.config.models import Policy
from training_core.errors import LearnerFailure
from training_core.llm.generation.base import SamplingSettings
from training_core.llm.generation.sampling import tempered_log_probs
from training_core.llm.generation.torch_engine import TorchEngine
from training_core.llm.learning.learner import Learner
from training_core.llm.learning.learner_config import Learner as LearnerSettings
from training_core.llm.learning.optimiser import learning_rate
from training_core.llm.learning.packing import MicroBatch, rows_work, tree_rows
from training_core.llm.learning.update_metrics import UpdateSums
from training_core.llm.models.flops import forward_flops
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


@pytest.mark.parametrize("rate", [1e-3, 1e-12])
def test_the_change_of_the_weights_is_reported(rate: float) -> None:
    """Against the norms of whole tensors: the little model's have about as many numbers as are read."""
    one = learner(learning_rate=rate)
    before = {name: weight.clone() for name, weight in one.weights().items()}
    change = one.update(groups(), 1, 0).metrics["weight_change"]
    squares = sum(float(((weight - before[name]) ** 2).sum()) for name, weight in one.weights().items())
    whole = sum(float((weight**2).sum()) for weight in before.values())
    assert change == pytest.approx((squares / whole) ** 0.5, rel=0.3)


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


def test_the_loss_by_hand() -> None:
    result = learner().update(groups(), 1, 0)
    tokens = sum(len(answer) for group in ANSWERS for answer in group)
    expected = (
        -sum(
            len(a) * v for g, vs in zip(ANSWERS, ADVANTAGES, strict=True) for a, v in zip(g, vs, strict=True)
        )
        / tokens
    )
    assert result.metrics["loss"] == pytest.approx(expected, abs=1e-5)


def test_data_that_is_no_number_is_refused_by_its_episodes_name() -> None:
    bad = groups()
    bad[1].advantages[0] = math.nan
    with pytest.raises(LearnerFailure, match="episode e10, turn 0"):
        learner().update(bad, 1, 0)


def flat(one: Learner) -> torch.Tensor:
    """All weights, one after another."""
    return torch.cat([weight.detach().flatten() for weight in one.model.parameters()])


def test_steps_without_a_finite_gradient_are_skipped_until_the_limit() -> None:
    one = learner(minibatches=3)
    before = flat(one)
    bad = groups()
    for group in bad:
        group.advantages[:] = [1e30, *group.advantages[1:]]
    assert one.update(bad, 1, 0).metrics["skipped_steps"] == 3.0
    assert torch.equal(flat(one), before)
    one.update(bad, 2, 0)
    one.update(bad, 3, 0)
    with pytest.raises(LearnerFailure, match="10 consecutive optimiser steps"):
        one.update(bad, 4, 0)
    assert torch.equal(flat(one), before)


def test_every_group_is_in_one_minibatch_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[list[tuple[str, int]]] = [[]]
    loss, step = Learner._loss, Learner._step

    def watched(one: Learner, piece: MicroBatch, *rest: Any, **more: Any) -> torch.Tensor:
        seen[-1] += [(group.episode, place) for group, place in piece.answers]
        return loss(one, piece, *rest, **more)

    def stepped(one: Learner, sums: Any) -> None:
        seen.append([])
        step(one, sums)

    monkeypatch.setattr(Learner, "_loss", watched)
    monkeypatch.setattr(Learner, "_step", stepped)
    result = learner(minibatches=2, epochs=3, micro_batch_tokens=8).update(groups(), 1, 0)
    assert len(seen) == 7 and not seen.pop()
    expected = sorted((group.episode, place) for group in groups() for place in range(len(group.answers)))
    for epoch in range(3):
        parts = seen[2 * epoch : 2 * epoch + 2]
        assert sorted(place for part in parts for place in part) == expected
        assert not {episode for episode, _ in parts[0]} & {episode for episode, _ in parts[1]}
    assert result.metrics["tokens"] == sum(len(answer) for answers in ANSWERS for answer in answers)


def test_one_adamw_step_against_a_loop_over_answers() -> None:
    algorithm = AtGrpo(kl_coefficient=0.1, entropy_coefficient=0.01, kl_estimator="k2")
    one = learner(algorithm, weight_decay=0.01)
    one.update(groups(0.7), 1, 0)  # moves away from base and data, so that ratios and KL are at work
    naive = make_model()
    naive.load_state_dict(one.model.state_dict())
    adam = torch.optim.AdamW(naive.parameters(), lr=1e-3, betas=(0.9, 0.99), weight_decay=0.01)
    adam.load_state_dict(copy.deepcopy(one.optimizer.state_dict()))
    base, total = make_model(), torch.tensor(0.0)
    data = groups(0.7)
    for group in data:
        for answer, advantage in zip(group.answers, group.advantages, strict=True):
            ids = torch.tensor([group.prompt_ids + answer.token_ids])
            spread = (naive(input_ids=ids).logits[0] / 0.7).log_softmax(-1)
            other = (base(input_ids=ids).logits[0] / 0.7).log_softmax(-1).detach()
            for place, token in enumerate(answer.token_ids):
                row = len(group.prompt_ids) - 1 + place
                ratio = (spread[row, token] - answer.logprobs[place]).exp()
                gain = torch.minimum(ratio * advantage, ratio.clamp(0.8, 1.2) * advantage)
                if advantage < 0:
                    gain = torch.maximum(gain, torch.tensor(3.0 * advantage))
                entropy = -(spread[row].exp() * spread[row]).sum()
                gap = spread[row, token] - other[row, token]
                total = total - gain - 0.01 * entropy + 0.1 * gap**2 / 2
    (total / sum(len(answer) for answers in ANSWERS for answer in answers)).backward()
    norm = torch.nn.utils.clip_grad_norm_(naive.parameters(), 1.0)
    adam.step()
    result = one.update(data, 2, 0)
    assert result.metrics["grad_norm"] == pytest.approx(norm.item(), rel=1e-4)
    expected = torch.cat([weight.detach().flatten() for weight in naive.parameters()])
    assert (flat(one) - expected).abs().max() < 1e-5


@torch.no_grad()
def model_logits(one: Learner, prompt: list[int]) -> torch.Tensor:
    """(V,) after the prompt."""
    logits: torch.Tensor = one.model(input_ids=torch.tensor([prompt])).logits[0, -1]
    return logits


def test_what_falls_out_of_the_truncation_stays_finite() -> None:
    """After some steps sampled tokens are no longer among the likeliest; they keep a probability, and the KL is whole."""
    model = make_model()
    settings = SamplingSettings(temperature=0.7, top_k=6, top_p=0.9, max_tokens=5)
    sampled = TorchEngine(model, TOKENIZER).generate(
        [Prompt(PROMPTS[0], 16, NoiseKey(0, 0, 1, 0, 0, 0))], settings
    )[0]
    group = Group("e", 0, PROMPTS[0], sampled, [0.0] * 16, [-1.0] * 8 + [1.0] * 8, 0.7, 6, 0.9)
    one = learner(AtGrpo(kl_coefficient=0.1, clip_low=1.0), epochs=12, learning_rate=5e-3)
    result = one.update([group], 1, 0)
    assert result.metrics["skipped_steps"] == 0.0
    assert all(math.isfinite(value) for value in result.metrics.values())
    first = model_logits(one, PROMPTS[0])
    spread = tempered_log_probs(first, 0.7, 6, 0.9)
    cut = [answer.token_ids[0] for answer in sampled if spread[answer.token_ids[0]] == -math.inf]
    assert cut, "some sampled token must have fallen out"
    after = one.update([group], 2, 0).annotations["e", 0]
    assert all(0.0 < ratio < math.inf for ratios in after.ratios for ratio in ratios)


def test_annotations_only_for_those_who_are_asked_for() -> None:
    notes = learner().update(groups(), 1, 0, annotated=["e10"]).annotations
    assert set(notes) == {("e10", 0)}
    assert [len(ratios) for ratios in notes["e10", 0].ratios] == [2, 3]


def test_bf16_learns_in_steps_too_small_for_bf16() -> None:
    """Weights near 1 move by 1e-5 a step: lost in bf16 (steps of 4e-3), kept in the fp32 copy."""
    model = make_model().to(torch.bfloat16)
    one = Learner(
        Policy(learner=LearnerSettings(learning_rate=1e-5, schedule="constant")), AtGrpo(), model, 10
    )
    before = flat(one)
    for iteration in range(1, 40):
        one.update(groups(), iteration, 0)
    moved = torch.cat([master.flatten() for master in one.optimiser.masters]) - before.float()
    assert moved.abs().max() > 1e-4
    assert not torch.equal(flat(one), before)


def test_nothing_to_learn_from_changes_nothing() -> None:
    one = learner()
    before = [weight.clone() for weight in one.model.parameters()]
    assert one.update([], 1, 0).metrics == {
        "lr": pytest.approx(1e-3),
        "trained_groups": 0.0,
        "weight_change": 0.0,
    }
    assert all(torch.equal(old, new) for old, new in zip(before, one.model.parameters(), strict=True))


def test_the_kl_pulls_back_to_the_base() -> None:
    kls = {}
    for coefficient in (1e-9, 1.0):
        one = learner(AtGrpo(kl_coefficient=coefficient), learning_rate=3e-4)
        for iteration in range(1, 15):
            kls[coefficient] = one.update(groups(), iteration, 0).metrics["kl"]
    assert 0.0 < kls[1.0] < 0.5 * kls[1e-9]


@pytest.mark.parametrize("epochs", [1, 2])
def test_flops_are_three_passes_an_epoch_and_one_of_the_base_model(epochs: int) -> None:
    made = learner(epochs=epochs)
    assert made.shape is not None
    forward = forward_flops(made.shape, rows_work(tree_rows(groups(), range(3), 4096)))
    assert made.update(groups(), 1, 0).flops == pytest.approx(3 * epochs * forward)
    penalised = learner(AtGrpo(kl_coefficient=0.1), epochs=epochs)
    assert penalised.update(groups(), 1, 0).flops == pytest.approx((3 * epochs + 1) * forward)


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


def test_kernels_that_were_compiled_since_the_last_update_are_a_metric(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    one, compiled = learner(), [3, 4, 4]
    monkeypatch.setattr("training_core.llm.learning.learner.compilations", lambda: compiled[0])
    monkeypatch.setitem(
        one.forward.__dict__, "blocks", True
    )  # FlexAttention, which has no gradients on the CPU
    told = []
    while compiled:
        told.append(one._metrics(UpdateSums(None), 1e-3, 1)["compilations"])
        compiled.pop(0)
    assert told == [3.0, 1.0, 0.0]
