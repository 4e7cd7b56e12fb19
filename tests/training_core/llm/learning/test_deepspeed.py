"""The deepspeed learner does what the torch learner does: ZeRO 0 to 3, one process and two, all on the CPU."""

from pathlib import Path

import pytest
import torch
from pydantic import ValidationError

from tests.training_core.llm.learning.together import Errand, Outcome, updated
from training_core.config.models import Devices, Policy
from training_core.llm.learning.learner_config import Deepspeed, Learner

pytestmark = pytest.mark.extended
SETTINGS = {"minibatches": 2, "epochs": 2, "schedule": "constant"}
SAME = {"loss", "kl", "entropy", "ratio_mean", "clip_fraction", "tokens", "skipped_steps", "mismatch_mean"}
"""The first update alone compares with the engine: the later ones are of the same version, whose weights the learner has left."""


@pytest.fixture(scope="module")
def alone() -> Outcome:
    """What the torch learner makes of it in one process."""
    return updated(Errand(Learner(**SETTINGS)))[0]


@pytest.mark.parametrize(("stage", "size"), [(0, 1), (0, 2), (1, 2), (2, 2), (3, 1), (3, 2)])
def test_its_losses_are_those_of_the_torch_learner(alone: Outcome, stage: int, size: int) -> None:
    several = updated(Errand(Deepspeed(zero_stage=stage, **SETTINGS), size))
    assert alone.metrics[0].keys() >= SAME
    for one in several:
        torch.testing.assert_close(one.weights, alone.weights, atol=5e-5, rtol=1e-3)
        for mine, expected in zip(one.metrics, alone.metrics, strict=True):
            assert mine.keys() & SAME == expected.keys() & SAME
            for name in expected.keys() & SAME:
                assert mine[name] == pytest.approx(expected[name], abs=2e-4, rel=2e-3), name
            assert mine["grad_norm"] == pytest.approx(expected["grad_norm"], rel=5e-3)
    assert set.union(*(set(one.annotations) for one in several)) == set(alone.annotations)


@pytest.mark.parametrize("precision", ["bf16"])
def test_half_precision(precision: str) -> None:
    (torchs,) = updated(Errand(Learner(precision=precision, **SETTINGS), precision=precision))
    (zeros,) = updated(Errand(Deepspeed(precision=precision, **SETTINGS), precision=precision))
    for mine, expected in zip(zeros.metrics, torchs.metrics, strict=True):
        assert mine["loss"] == pytest.approx(expected["loss"], abs=0.05)
        assert mine["grad_norm"] == pytest.approx(expected["grad_norm"], rel=0.05)


def test_stage_0_has_no_copies_in_fp32() -> None:
    with pytest.raises(ValidationError, match="trains only in fp32"):
        Deepspeed(zero_stage=0, precision="bf16")


def test_stage_3_needs_workers_apart() -> None:
    with pytest.raises(ValidationError, match='placement = "apart"'):
        Policy(learner=Deepspeed(zero_stage=3))
    Policy(learner=Deepspeed(zero_stage=3), devices=Devices(placement="apart"))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (Errand(Deepspeed(zero_stage=2, **SETTINGS), 2, last=2), Errand(Learner(**SETTINGS), first=3)),
        (Errand(Learner(**SETTINGS), last=2), Errand(Deepspeed(zero_stage=3, **SETTINGS), first=3)),
        (Errand(Deepspeed(zero_stage=3, **SETTINGS), last=2), Errand(Deepspeed(**SETTINGS), 2, first=3)),
        (
            Errand(Deepspeed(zero_stage=1, **SETTINGS), last=2),
            Errand(Deepspeed(zero_stage=0, **SETTINGS), first=3),
        ),
    ],
)
def test_a_run_may_go_on_with_another_backend_and_number_of_processes(
    alone: Outcome, tmp_path: Path, before: Errand, after: Errand
) -> None:
    updated(Errand(before.settings, before.size, last=2, write_to=tmp_path))
    for one in updated(Errand(after.settings, after.size, first=3, read_from=tmp_path)):
        torch.testing.assert_close(one.weights, alone.weights, atol=5e-5, rtol=1e-3)
        assert one.metrics[-1]["loss"] == pytest.approx(alone.metrics[-1]["loss"], abs=2e-4, rel=2e-3)
