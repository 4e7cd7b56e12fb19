"""Values that the shell completes: runs, projects, presets. Silent if the server does not answer within a second."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from training_core.errors import TroupeError
from troupe_client.server_api import find_server

SECONDS = 1.0
MOST = 100
Completed = list[tuple[str, str]]
"""Values with an explanation, which zsh and fish show."""


def complete_run(incomplete: str) -> Completed:
    """Ids of the newest runs, with name and state."""
    return _rows("/api/v1/runs/", incomplete, lambda run: (run["id"], f"{run['name']}, {run['state']}"))


def complete_project(incomplete: str) -> Completed:
    """Slugs of projects."""
    return _rows("/api/v1/projects/", incomplete, lambda project: (project["slug"], project["name"]))


def complete_preset(incomplete: str) -> Completed:
    """Names of presets."""
    from training_core.config.files import preset_names

    return [(name, "preset") for name in preset_names() if name.startswith(incomplete)]


def complete_source(incomplete: str) -> Completed:
    """Names of presets, and .toml files."""
    files = sorted(str(path) for path in Path().glob("*.toml") if str(path).startswith(incomplete))
    return [*complete_preset(incomplete), *((file, "config file") for file in files)]


def _rows(path: str, incomplete: str, pair: Callable[[Any], tuple[str, str]]) -> Completed:
    try:
        rows = replace(find_server(), timeout=SECONDS).call(path, limit=MOST)["results"]
        pairs = [pair(row) for row in rows]
    except (TroupeError, LookupError, TypeError):
        return []
    return [(value, about) for value, about in pairs if value.startswith(incomplete)]
