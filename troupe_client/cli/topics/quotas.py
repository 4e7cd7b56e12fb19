"""What a project may take."""

from typing import Annotated, Any

import typer

from troupe_client.cli.topics.projects import AsJson, Project, project_path, say
from troupe_client.server_api import ServerFailure, find_server

app = typer.Typer()


@app.command()
def quota(
    project: Project,
    limits: Annotated[
        list[str] | None,
        typer.Argument(help="Limits to change, e.g. runs=2 gpus=4 points=none; without any they are shown."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show or change how much a project may take: runs, cpus, gpus at once; points, gigabytes stored."""
    path = project_path(project, "quota/")
    body = {name: _number(value) for name, value in (_pair(each) for each in limits or [])}
    told = find_server().call(path, body) if body else find_server().call(path)
    if as_json:
        return say([told], True, None)
    rows = [
        {"name": name, "used": told["used"][name], "limit": told["limits"][name]} for name in told["limits"]
    ]
    say(rows, False, _line)
    if told["locked"]:
        typer.echo("set by an administrator")


def _pair(word: str) -> tuple[str, str]:
    name, sign, value = word.partition("=")
    if not sign:
        raise ServerFailure(f"{word!r}: write name=value, e.g. runs=2, or runs=none for no limit")
    return name, value


def _number(text: str) -> float | int | None:
    if text.lower() in ("none", ""):
        return None
    try:
        value = float(text)
    except ValueError:
        raise ServerFailure(f"{text!r} is no number; none: no limit") from None
    return int(value) if value.is_integer() else value


def _line(row: dict[str, Any]) -> str:
    limit = "no limit" if row["limit"] is None else f"of {row['limit']:,}"
    return f"{row['name']:<10} {row['used']:,} {limit}"
