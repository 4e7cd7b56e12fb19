"""Arguments and options that several commands share."""

from pathlib import Path
from typing import Annotated

import typer

from training_core.errors import TroupeError
from troupe_client.cli.completion import complete_preset, complete_project, complete_run, complete_source
from troupe_client.server_api import Server

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
