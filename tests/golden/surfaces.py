"""What other programs rely on: the OpenAPI document, the schemas of configs, the commands with their options.

`python -m tests.golden.surfaces` records them again: only where a name is meant to change.
"""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

import typer
from typer.testing import CliRunner

FOLDER = Path(__file__).with_name("surfaces")
WIDTH = {"COLUMNS": "100", "TERMINAL_WIDTH": "100", "TERM": "dumb"}
PROSE = ("description", "summary", "title")


def named(tree: Any) -> Any:
    """A schema without its prose: names, types, bounds and defaults."""
    if isinstance(tree, dict):
        return {
            key: named(value) for key, value in tree.items() if not (key in PROSE and isinstance(value, str))
        }
    return [named(item) for item in tree] if isinstance(tree, list | tuple) else tree


def openapi() -> Any:
    """The OpenAPI document of the REST API."""
    import django

    django.setup()
    from drf_spectacular.generators import SchemaGenerator

    return named(SchemaGenerator().get_schema(request=None, public=True))


def config_schemas() -> Any:
    """JSON schemas of both kinds of configs."""
    from training_core.config.marl import MarlConfig
    from training_core.config.run import RunConfig

    return {kind.__name__: named(kind.model_json_schema()) for kind in (RunConfig, MarlConfig)}


def commands() -> Any:
    """What every command answers to --help."""
    from troupe_client.cli.app import app

    root = typer.main.get_command(app)
    with patch("typer.testing._get_command", return_value=root):  # built once, not for each command
        found = {" ".join(["troupe", *path]): _help(app, path) for path in _paths(root, ())}
    module = [sys.executable, "-m", "workers.run", "--help"]
    text = subprocess.run(module, env=os.environ | WIDTH, capture_output=True, text=True, check=True).stdout
    return {**found, "python -m workers.run": text.splitlines()}


def _paths(command: Any, path: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    yield path
    for name, inner in sorted(getattr(command, "commands", {}).items()):
        yield from _paths(inner, (*path, name))


def _help(app: typer.Typer, path: tuple[str, ...]) -> list[str]:
    text = CliRunner().invoke(app, [*path, "--help"], env=WIDTH, prog_name="troupe").output
    return [line.rstrip() for line in text.splitlines()]


SURFACES: dict[str, Callable[[], Any]] = {
    "openapi": openapi,
    "config-schemas": config_schemas,
    "commands": commands,
}


def text_of(name: str) -> str:
    """As it is now."""
    return f"{json.dumps(SURFACES[name](), indent=1, sort_keys=True, ensure_ascii=False, default=str)}\n"


def main() -> None:
    """Write recordings."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "webapp.config.settings")
    FOLDER.mkdir(exist_ok=True)
    for name in SURFACES:
        (FOLDER / f"{name}.json").write_text(text_of(name))


if __name__ == "__main__":
    sys.exit(main())
