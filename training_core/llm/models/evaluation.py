"""Evaluation mode of a model: dropout off."""

from collections.abc import Iterator
from contextlib import contextmanager

from torch import nn


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
