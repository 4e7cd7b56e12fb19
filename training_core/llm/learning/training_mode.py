"""The model's mode in a training pass: evaluation mode, with configured exceptions.

Dropout of the base model stays off, so ratios of fresh data are 1. Activation checkpointing of blocks (Chen et al.,
arXiv 1604.06174) and an adapter's dropout are enabled individually.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from torch import nn
from transformers import PreTrainedModel
from transformers.modeling_layers import GradientCheckpointingLayer

from training_core.errors import LearnerFailure


def recompute_activations(model: PreTrainedModel) -> None:
    """Store only the inputs of each block of the model. Raises LearnerFailure if the model does not support it."""
    try:
        model.gradient_checkpointing_enable({"use_reentrant": False})
    except ValueError as error:
        raise LearnerFailure(
            f"{type(model).__name__} cannot recompute activations; set learner.activation_checkpointing = false"
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
