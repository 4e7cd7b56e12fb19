"""How the model runs in a training pass: in evaluation mode, but for what is asked for.

Dropout of the base model stays off, so that ratios of fresh data are 1. Blocks whose activations are computed again in the
backward pass (Chen et al., arXiv 1604.06174), and an adapter's dropout, are switched on by themselves.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from torch import nn
from transformers import PreTrainedModel
from transformers.modeling_layers import GradientCheckpointingLayer

from training_core.errors import LearnerFailure


def recompute_activations(model: PreTrainedModel) -> None:
    """Keep only what goes into each block of the model. Raises LearnerFailure where it has no such blocks."""
    try:
        model.gradient_checkpointing_enable({"use_reentrant": False})
    except ValueError as error:
        raise LearnerFailure(
            f"{type(model).__name__} cannot compute activations again; set learner.activation_checkpointing = false"
        ) from error


@contextmanager
def training_passes(model: nn.Module) -> Iterator[None]:
    """Forward and backward passes within it recompute, and drop out, where the model was made to."""
    blocks = [part for part in model.modules() if isinstance(part, GradientCheckpointingLayer)]
    drops = [drop for part in model.modules() for drop in getattr(part, "lora_dropout", {}).values()]
    for part in (*blocks, *drops):
        part.training = True  # of this module alone: `train` would reach what is inside
    try:
        yield
    finally:
        for part in (*blocks, *drops):
            part.training = False
