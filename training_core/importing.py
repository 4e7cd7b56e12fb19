"""Objects of the user's own by import path, "package.module:Name"."""

import importlib
import re
from typing import Any

from training_core.errors import ConfigError

IMPORT_PATH = r"^[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*(\.[A-Za-z_]\w*)*$"
"""A module, a colon, and a name in it."""


def load_object(path: str, field: str = "") -> Any:
    """What `path` names. Raises ConfigError, under the name of the config's `field`, that says what to do."""
    if not re.fullmatch(IMPORT_PATH, path):
        raise ConfigError({field: f"{path!r} is no import path; write package.module:Name"})
    module_name, _, name = path.partition(":")
    try:
        found: Any = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        missing = error.name or module_name
        remedy = "install the package where runs are played, or put its folder on PYTHONPATH"
        raise ConfigError({field: f"{path}: there is no module {missing!r}; {remedy}"}) from error
    except Exception as error:  # the user's module runs as it is imported
        said = f"{type(error).__name__}: {error}"
        raise ConfigError({field: f"{path}: the module {module_name} cannot be imported: {said}"}) from error
    for part in name.split("."):
        if not hasattr(found, part):
            known = ", ".join(sorted(word for word in vars(found) if not word.startswith("_"))[:20])
            raise ConfigError({field: f"{path}: {module_name} has no {name!r}; it has {known}"})
        found = getattr(found, part)
    return found


def root_package(path: str) -> str:
    """The package that an import path begins with."""
    return path.partition(":")[0].partition(".")[0]
