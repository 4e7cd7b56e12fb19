"""Learners for the steps."""

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor
from transformers import PreTrainedModel

from training_core.algorithms.config import AtGrpo
from training_core.config.models import Policy
from training_core.llm.learning.learner import Learner
from training_core.llm.learning.learner_config import Learner as LearnerSettings
from training_core.llm.models.adapter_config import Lora
from training_core.llm.models.lora import add_adapter
from training_core.types import Group

ALGORITHM = AtGrpo(kl_coefficient=0.0, dual_clip=0.0)
"""The clipped loss, averaged over tokens, without a base model."""


def make_learner(
    model: PreTrainedModel,
    *,
    precision: str = "fp32",
    lora: Lora | None = None,
    seed: int = 0,
    **settings: object,
) -> Learner:
    """A learner of this model; with `lora`, of a new adapter."""
    options = {"learning_rate": 1e-4, "schedule": "constant", "precision": precision} | settings
    learner = LearnerSettings.model_validate(options)
    if lora is None:
        return Learner(Policy(learner=learner), ALGORITHM, model, 100)
    add_adapter(model, lora, seed)
    return Learner(Policy(learner=learner, adapter=lora), ALGORITHM, model, 100)


def gradients_of(learner: Learner, groups: Sequence[Group]) -> Tensor:
    """The gradient (weights,) that one update applies: its optimiser steps do not change the weights."""
    captured: list[Tensor] = []
    step = learner.optimiser.adamw.step

    def record() -> None:
        masters = learner.optimiser.masters
        captured.append(
            torch.cat([weight.grad.flatten().float() for weight in masters if weight.grad is not None])
        )

    learner.optimiser.adamw.step = record  # type: ignore[method-assign]
    try:
        learner.update(groups, 1, 0, set())
    finally:
        learner.optimiser.adamw.step = step  # type: ignore[method-assign]
    return torch.stack(captured).sum(0)


def relative_error(actual: Tensor, expected: Tensor) -> float:
    """Norm of the difference relative to the expected norm."""
    return float((actual - expected).norm() / expected.norm())


def largest_difference(
    actual: Sequence[Mapping[str, float]], expected: Sequence[Mapping[str, float]], names: Sequence[str]
) -> float:
    """The largest difference of a metric of an update, relative to its size where that is above 1."""
    return max(
        abs(row[name] - other[name]) / max(abs(other[name]), 1.0)
        for row, other in zip(actual, expected, strict=True)
        for name in names
        if name in other
    )


def similarity(actual: Tensor, expected: Tensor) -> float:
    """Cosine of the angle between two gradients."""
    return float(torch.nn.functional.cosine_similarity(actual, expected, dim=0))
