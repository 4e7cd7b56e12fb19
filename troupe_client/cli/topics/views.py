"""Saved views of the runs table."""

from typing import Annotated, Any

import typer

from troupe_client.cli.arguments import AsJson
from troupe_client.cli.output import print_result
from troupe_client.cli.resources import find_named
from troupe_client.server_api import Server, find_server

app = typer.Typer()
Name = Annotated[str, typer.Argument(help="Name or number of the view, as `troupe view list` shows it.")]


@app.command("save")
def view_save(
    name: Annotated[str, typer.Argument(help="Name of the view.")],
    filter_text: Annotated[str, typer.Option("--filter", help="E.g. 'eval/success > 0.8'.")] = "",
    sort: Annotated[str, typer.Option(help="E.g. -eval/success.")] = "",
    columns: Annotated[str, typer.Option(help="E.g. run.seed,eval/success:max.")] = "",
    group: Annotated[str, typer.Option(help="family: runs that differ only in their seed are grouped.")] = "",
    project: Annotated[
        str, typer.Option(help="Slug of a project to share it with; default: a view of your own.")
    ] = "",
    replace: Annotated[bool, typer.Option("--replace", help="Replace a view with this name.")] = False,
    as_json: AsJson = False,
) -> None:
    """Save a filter, order, columns and grouping under a name."""
    query = {"filter": filter_text, "sort": sort, "columns": columns, "group": group}
    body = {"name": name, "query": query, "project": project, "replace": replace}
    _print(find_server().call("/api/v1/views/", body), as_json)


def view_find(server: Server, name: str) -> dict[str, Any]:
    """Return a saved view by its name or number; see `find_named`."""
    return find_named(_all(server), name, "view")


def _all(server: Server) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = server.call("/api/v1/views/")["results"]
    return rows


def _print(view: dict[str, Any], as_json: bool) -> None:
    label = "removed" if view.get("deleted") else "default" if view["default"] else view["project"] or "yours"
    print_result(view, as_json, f"{view['id']}  {view['name']}  {label}")
