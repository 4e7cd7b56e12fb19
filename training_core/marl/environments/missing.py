"""Packages that only some environments need."""

import importlib
from typing import Any

from training_core.errors import ConfigError

REMEDY = "pip install 'troupe[marl]' where runs are played (`make run` does), then launch again"


def needed(module: str, kind: str) -> Any:
    """A module that environments of this `type` need. Raises ConfigError that says how to get it."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise ConfigError(
            {"environment.type": f"{kind} needs the package {module.partition('.')[0]}: {REMEDY}"}
        ) from error
