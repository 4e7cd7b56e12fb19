"""Custom networks by import path."""

from inspect import isclass

import torch
from torch import Tensor

from training_core.errors import ConfigError
from training_core.importing import load_object
from training_core.marl.networks.base import Backbone
from training_core.marl.networks.config import CustomNetwork

FIELD = "network.path"
ROWS, STEPS = 3, 2
"""Shape of the inputs that check a class."""


def make(section: CustomNetwork, inputs: int) -> Backbone:
    """An instance of the class. Raises ConfigError if it is not a Backbone or does not match the interface."""
    kind = load_object(section.path, FIELD)
    if not (isclass(kind) and issubclass(kind, Backbone)):
        text = f"{section.path} is not a subclass of Backbone of training_core/marl/networks/base.py"
        raise ConfigError({FIELD: text}, remedy="derive it from that class")
    try:
        backbone: Backbone = kind(section, inputs, **section.args)
    except TypeError as error:
        text = f"{section.path} cannot be constructed with the config section, {inputs} inputs and network.args: {error}"
        raise ConfigError({FIELD: text}) from error
    with torch.no_grad(), torch.random.fork_rng(devices=[]):
        _check(backbone, inputs, section.path)
    return backbone


def _check(backbone: Backbone, inputs: int, path: str) -> None:
    """Raises ConfigError if features or memory have another shape than the interface defines."""
    try:
        memory = backbone.start(ROWS)
        begins = torch.zeros(STEPS, ROWS, dtype=torch.bool)
        sequence = backbone.sequence(torch.zeros(STEPS, ROWS, inputs), memory, begins)
        features, after = backbone.step(torch.zeros(ROWS, inputs), memory)
        width = backbone.features
    except Exception as error:  # the class is the user's
        text = f"{path} fails with inputs (rows, {inputs}): {type(error).__name__}: {error}"
        raise ConfigError({FIELD: f"{text}."}, remedy="Fix it, and test it separately") from error
    for name, tensor, shape in (
        ("step returns features", features, (ROWS, width)),
        ("sequence returns features", sequence, (STEPS, ROWS, width)),
    ):
        if tuple(tensor.shape) != shape:
            text = f"{path}: {name} of shape {tuple(tensor.shape)} for {ROWS} rows"
            raise ConfigError({FIELD: text}, remedy=f"return {shape}, or set `features`")
    if not (_has_rows(memory) and _has_rows(after)):
        text = f"{path}: the memory is not a tuple of tensors with the rows in dimension 0"
        raise ConfigError({FIELD: text}, remedy="return one, () for none")


def _has_rows(memory: object) -> bool:
    return isinstance(memory, tuple) and all(
        isinstance(part, Tensor) and len(part) == ROWS for part in memory
    )
