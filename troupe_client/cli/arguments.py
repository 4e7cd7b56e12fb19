"""Arguments and options that several commands share, and the values that the shell completes: none if the server does not answer within
a second.
"""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from training_core.errors import TroupeError
from troupe_client.server_api import Server, find_server

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


AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for scripts.")]
RunId = Annotated[
    str, typer.Argument(help="Id of the run, as `troupe runs` shows it.", autocompletion=complete_run)
]
RunIds = Annotated[list[str] | None, typer.Argument(help="Ids of runs.", autocompletion=complete_run)]
RunName = Annotated[str, typer.Option(help="Name of the run, shown in tables.")]
Tags = Annotated[list[str] | None, typer.Option(help="A tag; may be repeated.")]
Preset = Annotated[str, typer.Argument(help="Name of a preset.", autocompletion=complete_preset)]
Source = Annotated[
    str, typer.Argument(help="Name of a preset, or a .toml file.", autocompletion=complete_source)
]
Overrides = Annotated[list[str] | None, typer.Argument(help="Fields to change: key=value, e.g. run.seed=1.")]
Project = Annotated[
    str,
    typer.Argument(
        help="Slug of the project, as `troupe project list` shows it.", autocompletion=complete_project
    ),
]
InProject = Annotated[
    str,
    typer.Option(help="Slug of the project; default: your first project.", autocompletion=complete_project),
]
OutputFile = Annotated[
    Path | None,
    typer.Option("--output", "-o", help="File to write; default: standard output.", dir_okay=False),
]
EvaluationKind = Annotated[str, typer.Option(help="eval (greedy) or eval_sampled.")]


def project_slug(server: Server, project: str) -> str:
    """Return the project of the option; by default the caller's first that they may change, or that they may read."""
    if project:
        return project
    projects = sorted(server.call("/api/v1/projects/")["results"], key=lambda row: row["level"] == "viewer")
    if not projects:
        raise TroupeError("you are in no project; create one with `troupe project create NAME`")
    return str(projects[0]["slug"])
