"""Modes of a model: evaluation mode, in which dropout is off, and passes with dropout and activation checkpointing."""

from collections.abc import Iterator
from contextlib import contextmanager

from torch import nn
from transformers import PreTrainedModel
from transformers.modeling_layers import GradientCheckpointingLayer

from training_core.errors import LearnerFailure


def use_evaluation_mode(model: nn.Module) -> None:
    """Set evaluation mode, if a module is not in it: setting it takes as long as a pass of a small model's layer."""
    if any(part.training for part in model.modules()):
        model.eval()


@contextmanager
def evaluation_mode(model: nn.Module) -> Iterator[None]:
    """Context in which a model is in evaluation mode; afterwards it has its previous mode."""
    was_training = model.training
    use_evaluation_mode(model)
    try:
        yield
    finally:
        if was_training:
            model.train()


def recompute_activations(model: PreTrainedModel) -> None:
    """Store only the inputs of each block of the model. Raises LearnerFailure if the model does not support it."""
    try:
        model.gradient_checkpointing_enable({"use_reentrant": False})
    except ValueError as error:
        raise LearnerFailure(
            f"{type(model).__name__} cannot recompute activations",
            remedy="set learner.activation_checkpointing = false",
        ) from error


@contextmanager
def training_passes(model: nn.Module) -> Iterator[None]:
    """Context in which passes use activation checkpointing and dropout, if the model is configured for them."""
    blocks = [part for part in model.modules() if isinstance(part, GradientCheckpointingLayer)]
    drops = [drop for part in model.modules() for drop in getattr(part, "lora_dropout", {}).values()]
    for part in (*blocks, *drops):
        part.training = True  # only this module: `train` would also affect its submodules
    try:
        yield
    finally:
        for part in (*blocks, *drops):
            part.training = False
