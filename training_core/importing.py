"""Objects of the user's own by import path, "package.module:Name"."""

import importlib
import json
import re
from functools import lru_cache, partial
from inspect import isclass
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


def made(path: str, args: dict[str, Any], field: str = "") -> Any:
    """What `path` names, ready to be called: a class's one object, made with `args`; a function with `args` given.

    The same object for the same path and arguments in one process. Raises ConfigError.
    """
    return _made(path, json.dumps(args, sort_keys=True), field)


@lru_cache(maxsize=64)
def _made(path: str, args: str, field: str) -> Any:
    found, given = load_object(path, field), json.loads(args)
    if not callable(found):
        raise ConfigError({field: f"{path} is neither a function nor a class"})
    if not isclass(found):
        return partial(found, **given) if given else found
    try:
        return found(**given)
    except TypeError as error:
        raise ConfigError({field: f"{path} cannot be made with its args: {error}"}) from error
