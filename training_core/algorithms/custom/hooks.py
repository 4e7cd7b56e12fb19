"""The steps of an algorithm by import path."""

from inspect import isclass

from training_core.algorithms.custom.config import CustomAlgorithm
from training_core.algorithms.hooks import AlgorithmHooks
from training_core.errors import ConfigError
from training_core.importing import load_object

FIELD = "algorithm.path"


def custom_hooks(algorithm: CustomAlgorithm) -> AlgorithmHooks:
    """The custom class's object. Raises ConfigError if there is no such class, or if it cannot be constructed."""
    hooks = load_object(algorithm.path, FIELD)
    if not (isclass(hooks) and issubclass(hooks, AlgorithmHooks)):
        text = f"{algorithm.path} is not a subclass of AlgorithmHooks of training_core/algorithms/hooks.py; derive it from that class"
        raise ConfigError({FIELD: text})
    try:
        return hooks(algorithm)
    except Exception as error:  # the constructor is the user's
        reason = f"{type(error).__name__}: {error}"
        text = f"{algorithm.path} cannot be constructed with the algorithm's config as its only argument: {reason}"
        raise ConfigError({FIELD: text}) from error
