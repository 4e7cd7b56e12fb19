"""Agents by import path."""

from importlib import import_module
from typing import Any

from training_core.errors import ConfigError


def load_class(path: str) -> Any:
    """What `package.module:Class` names. Raises ConfigError where it is not there, or has no `run`."""
    module, _, name = path.partition(":")
    try:
        found = getattr(import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise ConfigError({"workflow.path": f"cannot import {path!r}: {error}"}) from error
    if not callable(getattr(found, "run", None)):
        raise ConfigError({"workflow.path": f"{path!r} has no method run(data, **kwargs)"})
    return found
