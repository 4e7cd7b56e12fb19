"""Custom objects by import path, "package.module:Name"."""

import importlib
import json
import re
from functools import lru_cache, partial
from inspect import isclass
from typing import Any

from training_core.errors import ConfigError

IMPORT_PATH = r"^[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*(\.[A-Za-z_]\w*)*$"
"""A module, a colon and a name in the module."""


def load_object(path: str, field: str = "") -> Any:
    """The object at `path`. Raises ConfigError for the config's `field`, with a remedy."""
    if not re.fullmatch(IMPORT_PATH, path):
        raise ConfigError({field: f"{path!r} is not an import path"}, remedy="write package.module:Name")
    module_name, _, name = path.partition(":")
    try:
        target: Any = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        missing = error.name or module_name
        remedy = "install the package on the machine that runs the workers, or add its folder to PYTHONPATH"
        raise ConfigError({field: f"{path}: there is no module {missing!r}"}, remedy=remedy) from error
    except Exception as error:  # importing runs the user's module
        cause = f"{type(error).__name__}: {error}"
        raise ConfigError({field: f"{path}: the module {module_name} cannot be imported: {cause}"}) from error
    for part in name.split("."):
        if not hasattr(target, part):
            known = ", ".join(sorted(word for word in vars(target) if not word.startswith("_"))[:20])
            raise ConfigError({field: f"{path}: {module_name} has no {name!r}; it has {known}"})
        target = getattr(target, part)
    return target


def resolve(path: str) -> Any:
    """The object at the path of a built-in registry; import errors are raised unchanged."""
    module_name, _, name = path.partition(":")
    return getattr(importlib.import_module(module_name), name)


def made(path: str, args: dict[str, Any], field: str = "") -> Any:
    """A callable from `path`: a class's single instance, constructed with `args`, or a function with `args` bound.

    Returns the same object for the same path and arguments within a process. Raises ConfigError.
    """
    return _made(path, json.dumps(args, sort_keys=True), field)


@lru_cache(maxsize=64)
def _made(path: str, args: str, field: str) -> Any:
    target, arguments = load_object(path, field), json.loads(args)
    if not callable(target):
        raise ConfigError({field: f"{path} is neither a function nor a class"})
    if not isclass(target):
        return partial(target, **arguments) if arguments else target
    try:
        return target(**arguments)
    except TypeError as error:
        raise ConfigError({field: f"{path} cannot be constructed with its args: {error}"}) from error
