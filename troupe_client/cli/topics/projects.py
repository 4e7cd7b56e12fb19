"""Projects: limits, and read-only links to their runs."""

from typing import Annotated, Any

import typer

from troupe_client.cli.arguments import AsJson, Project
from troupe_client.cli.output import print_json, print_line, print_rows
from troupe_client.server_api import ServerFailure, find_server, project_path, run_path

app = typer.Typer()
shares = typer.Typer()


@app.command("quota")
def quota(
    project: Project,
    limits: Annotated[
        list[str] | None,
        typer.Argument(help="Limits to change, e.g. runs=2 gpus=4 points=none; default: show them."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show or change the limits of a project: runs, cpus, gpus at once; points, gigabytes stored."""
    path = project_path(project, "quota/")
    body = {name: _number(value) for name, value in (_pair(word) for word in limits or [])}
    current = find_server().call(path, body) if body else find_server().call(path)
    if as_json:
        return print_json([current])
    rows = [
        {"name": name, "used": current["used"][name], "limit": limit}
        for name, limit in current["limits"].items()
    ]
    print_rows(rows, False, _row)
    if current["locked"]:
        print_line("set by an administrator")


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
        raise ServerFailure(f"{text!r} is not a number; write none for no limit") from None
    return int(value) if value.is_integer() else value


def _row(row: dict[str, Any]) -> str:
    limit = "no limit" if row["limit"] is None else f"of {row['limit']:,}"
    return f"{row['name']:<10} {row['used']:,} {limit}"


@shares.command("create")
def share(
    runs: Annotated[list[str], typer.Argument(help="Id of a run; several ids share their comparison.")],
    title: Annotated[str, typer.Option(help="Title in the list of links.")] = "",
    days: Annotated[
        int, typer.Option(help="Days until the link expires; 0: valid until revoked.", min=0)
    ] = 30,
    as_json: AsJson = False,
) -> None:
    """Create a read-only link to a run or a comparison of runs, shown only once."""
    server = find_server()
    project = server.call(run_path(runs[0]))["project"]
    one = len(runs) == 1
    body = {
        "kind": "run" if one else "comparison",
        "target": runs[0] if one else f"runs={','.join(runs)}",
        "title": title,
        "days": days or None,
    }
    created = server.call(project_path(project, "shares/"), body)
    print_rows([created], as_json, lambda link: str(link["link"]))
