"""Checks of what the steps of an algorithm return: custom code may return another shape."""

from typing import Any

import numpy as np

from training_core.algorithms.advantages import Floats
from training_core.errors import ConfigError

FIELD = "algorithm.path"


def checked_numbers(result: Any, count: int, hooks: object, method: str) -> Floats:
    """The result (count,) of a method of `hooks`. Raises ConfigError for another shape."""
    try:
        numbers = np.asarray(result, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise _wrong(hooks, method, f"{type(result).__name__}: {error}", f"({count},)") from error
    if numbers.shape != (count,):
        raise _wrong(hooks, method, f"an array of shape {numbers.shape}", f"({count},)")
    return numbers


def checked_loss(result: Any, tokens: int, hooks: object) -> Any:
    """The pair of tensors (tokens,) that `policy_loss` of `hooks` returned. Raises ConfigError for another shape."""
    parts = result if isinstance(result, tuple) else (result,)
    shapes = [tuple(getattr(part, "shape", ())) for part in parts]
    if shapes != [(tokens,), (tokens,)]:
        raise _wrong(hooks, "policy_loss", f"values of shape {shapes}", f"({tokens},) for loss and clipped")
    return result


def _wrong(hooks: object, method: str, returned: str, shape: str) -> ConfigError:
    text = f"{type(hooks).__name__}.{method} returned {returned}; return one number for each entry, shape {shape}"
    return ConfigError({FIELD: text})
