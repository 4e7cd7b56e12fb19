"""Number formats, the loss scale of fp16, activations that are computed again, and freshness over a whole update."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from tests.training_core.llm.learning.test_learner import flat, groups
from tests.training_core.llm.toys import TOKENIZER, make_model
from training_core.algorithms.config import AtGrpo
from training_core.config.models import Policy
from training_core.errors import StalePolicy
from training_core.llm.learning import optimiser
from training_core.llm.learning.learner import Learner
from training_core.llm.learning.learner_config import Learner as LearnerSettings
from training_core.llm.learning.policy_checkpoint import load_policy, save_policy
from training_core.llm.models.adapter_config import Lora
from training_core.llm.models.loading import DTYPES
from training_core.llm.models.lora import add_adapter

ALGORITHM = AtGrpo(kl_coefficient=0.1, entropy_coefficient=0.01)


def learner(precision: str = "fp32", adapter: Lora | None = None, **settings: object) -> Learner:
    section = LearnerSettings(**{"precision": precision, "schedule": "constant", **settings})
    model = make_model().to(DTYPES[precision])
    if adapter:
        add_adapter(model, adapter, 0)
    policy = Policy(learner=section, adapter=adapter) if adapter else Policy(learner=section)
    return Learner(policy, ALGORITHM, model, 10)


@pytest.mark.parametrize("precision", ["bf16", "fp16"])
def test_half_precision_learns_what_fp32_learns(precision: str) -> None:
    whole, half = learner(), learner(precision)
    before = flat(whole).clone()
    one, other = whole.update(groups(), 1, 0).metrics, half.update(groups(), 1, 0).metrics
    assert other["loss"] == pytest.approx(one["loss"], abs=0.05)
    assert other["grad_norm"] == pytest.approx(one["grad_norm"], rel=0.05)
    assert {weight.dtype for weight in half.model.parameters()} == {DTYPES[precision]}
    assert {master.dtype for master in half.optimiser.masters} == {torch.float32}
    # AdamW's first step is the sign of the gradient: nearly all signs agree.
    moved = torch.cat([master.detach().flatten() for master in half.optimiser.masters]) - before.to(
        DTYPES[precision]
    )
    same = torch.sign(moved) == torch.sign(flat(whole) - before)
    assert float(same.float().mean()) > 0.8


def test_gradients_that_fp16_would_lose_survive_by_the_loss_scale() -> None:
    small = [replace(group, advantages=[1e-6 * value for value in group.advantages]) for group in groups()]
    plain = AtGrpo()
    norms = {}
    for name, precision, scale in (("fp32", "fp32", 1.0), ("scaled", "fp16", 2.0**16), ("bare", "fp16", 1.0)):
        settings = LearnerSettings(precision=precision, schedule="constant")
        one = Learner(Policy(learner=settings), plain, make_model().to(DTYPES[precision]), 10)
        one.optimiser.scale = scale
        norms[name] = one.update(small, 1, 0).metrics["grad_norm"]
    assert norms["scaled"] == pytest.approx(norms["fp32"], rel=0.05)
    assert norms["bare"] < 0.95 * norms["fp32"]


def test_a_step_that_overflows_is_skipped_counted_and_lowers_the_scale() -> None:
    one = learner("fp16")
    one.optimiser.scale = 2.0**24
    before, metrics = flat(one).clone(), one.update(groups(), 1, 0).metrics
    assert metrics["overflowed_steps"] == 1.0 and metrics["skipped_steps"] == 0.0
    assert metrics["loss_scale"] == 2.0**23
    assert torch.equal(flat(one), before)
    for _ in range(24):
        metrics = one.update(groups(), 1, 0).metrics
        if not metrics["overflowed_steps"]:
            break
    assert metrics["overflowed_steps"] == 0.0 and not torch.equal(flat(one), before)
    assert metrics["loss_scale"] == one.optimiser.scale < 2.0**23


def test_the_scale_doubles_after_many_good_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(optimiser, "GROWTH_INTERVAL", 3)
    one = learner("fp16")
    one.optimiser.scale = 8.0
    scales = [one.update(groups(), 1, 0).metrics["loss_scale"] for _ in range(6)]
    assert scales == [8.0, 8.0, 16.0, 16.0, 16.0, 32.0]


def test_fp32_has_no_scale() -> None:
    metrics = learner().update(groups(), 1, 0).metrics
    assert not {"loss_scale", "overflowed_steps"} & metrics.keys()


def test_the_scale_comes_back_from_a_checkpoint(tmp_path: Path) -> None:
    one, other = learner("fp16"), learner("fp16")
    one.optimiser.scale = 512.0
    one.update(groups(), 1, 0)
    save_policy(tmp_path, one, TOKENIZER, 1)
    load_policy(tmp_path, other)
    assert other.optimiser.scale == 512.0
    assert other.optimiser.counters() == one.optimiser.counters()
    assert torch.equal(flat(one), flat(other))


@pytest.mark.parametrize("adapter", [None, Lora(rank=4)])
def test_activations_that_are_computed_again_change_no_number(adapter: Lora | None) -> None:
    kept, again = (
        learner(adapter=adapter, activation_checkpointing=checkpointing, minibatches=2, epochs=2)
        for checkpointing in (False, True)
    )
    calls = {id(kept): 0, id(again): 0}
    for one in (kept, again):

        def count(*_: object, key: int = id(one)) -> None:
            calls[key] += 1

        one.model.model.layers[0].mlp.register_forward_pre_hook(count)
    one, other = kept.update(groups(), 1, 0), again.update(groups(), 1, 0)
    assert other.metrics == one.metrics
    assert torch.equal(flat(kept), flat(again))
    assert calls[id(again)] > calls[id(kept)], "its blocks ran once more for the backward pass"
    assert not any(part.training for part in again.model.modules()), "and generation keeps its cache"


def test_a_whole_update_learns_from_data_of_the_version_it_began_with() -> None:
    """Optimiser steps of an update do not make its own data stale; data of another version is refused before any."""
    one = learner(minibatches=3, epochs=3)
    before = flat(one).clone()
    with pytest.raises(StalePolicy, match="sampled by version 0, but the policy is at version 1"):
        one.update(groups(), 1, 1)
    assert torch.equal(flat(one), before)
    result = one.update(groups(), 1, 0)
    assert not torch.equal(flat(one), before)
    assert result.metrics["ratio_max"] > 1.001, "later steps see the weights that earlier ones made"
    # A token of a later minibatch is looked at before any step, too: nothing was learnt from the others first.
    old = groups()
    answer = old[2].answers[0]
    old[2].answers[0] = replace(answer, versions=[*answer.versions[:-1], 5])
    after = flat(one).clone()
    with pytest.raises(StalePolicy, match="version 5"):
        one.update(old, 2, 0)
    assert torch.equal(flat(one), after)


@pytest.mark.parametrize("precision", ["bf16", "fp16"])
def test_a_step_in_buckets_is_that_of_the_whole(precision: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Clipped: the norm is that of all buckets. At most one bucket of the gradients is in fp32 at a time."""
    settings = {"max_grad_norm": 0.05}
    whole = learner(precision, **settings)
    monkeypatch.setattr(optimiser, "GRADIENTS_AT_ONCE", 600)
    pieces = learner(precision, **settings)
    assert len(whole.optimiser._buckets) == 1 and len(pieces.optimiser._buckets) > 5
    copies, step = [], pieces.optimiser.adamw.step

    def counted() -> None:
        copies.append(sum(master.grad is not None for master in pieces.optimiser.masters))
        step()

    monkeypatch.setattr(pieces.optimiser.adamw, "step", counted)
    for iteration in (1, 2):
        one, other = (each.update(groups(), iteration, 0).metrics for each in (whole, pieces))
        assert other["grad_norm"] == pytest.approx(one["grad_norm"], rel=1e-6)
    for one, other in zip(whole.optimiser.masters, pieces.optimiser.masters, strict=True):
        assert torch.allclose(one, other, rtol=1e-5, atol=1e-7)
    assert len(copies) == 2 * len(pieces.optimiser._buckets)
    assert sum(copies) == 2 * len(pieces.optimiser.masters)
