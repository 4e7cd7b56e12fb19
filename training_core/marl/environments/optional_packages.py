"""Packages that only some environments need."""

import importlib
from typing import Any

from training_core.errors import ConfigError

REMEDY = (
    "pip install 'troupe[marl]' on the machine that runs the workers (`make run` does), then launch again"
)


def import_optional(module: str, kind: str, remedy: str = REMEDY) -> Any:
    """A module that environments of this `type` need. Raises ConfigError with the install command, `remedy`."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise ConfigError(
            {"environment.type": f"{kind} needs the package {module.partition('.')[0]}: {remedy}"}
        ) from error
