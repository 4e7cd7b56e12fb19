"""Generator plugins: Python files in a folder that define TASK_TYPE and run_rollout."""

import importlib.util
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from training_core.errors import TroupeError
from workers.rollout_buffer.rules import HOOKS

BUILT_IN = Path(__file__).with_name("generators")
"""Plugins that ship with Troupe."""


class PluginFailure(TroupeError):
    """A plugin cannot be found or loaded."""


@dataclass(frozen=True)
class Plugin:
    """A file that generates records of one task type."""

    task_type: str
    path: Path
    run_rollout: Callable[[dict[str, Any]], None]
    hooks: dict[str, Callable[..., Any]]
    """The functions of Rules that it replaces."""


@dataclass(frozen=True)
class Plugins:
    """Plugins by task type, and the errors of files that cannot be loaded."""

    found: dict[str, Plugin]
    broken: dict[str, str]
    """File name -> error."""

    def get(self, task_type: str) -> Plugin:
        """The plugin of a task type. Raises PluginFailure, which lists the available ones."""
        if task_type in self.found:
            return self.found[task_type]
        known = ", ".join(sorted(self.found)) or "none"
        broken = "".join(f"; {name} cannot be loaded: {error}" for name, error in self.broken.items())
        raise PluginFailure(f"no generator has TASK_TYPE = {task_type!r}; there are {known}{broken}")


def find_plugins(folders: Iterable[Path]) -> Plugins:
    """All plugins in these folders; for equal task types the later folder's.

    Other files, and those whose names begin with an underscore, are helpers: plugins may import them by name.
    """
    plugins = Plugins({}, {})
    for folder in folders:
        if str(folder) not in sys.path and folder != BUILT_IN:
            sys.path.insert(0, str(folder))
        for path in sorted(folder.glob("*.py")):
            if not path.name.startswith("_"):
                _find(path, plugins)
    return plugins


def load_plugin(path: Path) -> Plugin | None:
    """The plugin in a file; None if the file is not a plugin. Raises what the file raises."""
    module = _load(path)
    task_type, run = getattr(module, "TASK_TYPE", None), getattr(module, "run_rollout", None)
    if not isinstance(task_type, str) or not callable(run):
        return None
    hooks = {name: getattr(module, name) for name in HOOKS if callable(getattr(module, name, None))}
    return Plugin(task_type, path, run, hooks)


def _find(path: Path, plugins: Plugins) -> None:
    try:
        plugin = load_plugin(path)
    except Exception as error:  # a user's file: the others still work
        plugins.broken[path.name] = f"{type(error).__name__}: {error}"
        return
    if plugin is not None:
        plugins.found[plugin.task_type] = plugin


def _load(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"rollout_generators.{path.stem}", path)
    if spec is None or spec.loader is None:
        raise PluginFailure(f"{path} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
