"""Saved views of the runs table."""

from typing import Annotated, Any

import typer
from rich.text import Text

from troupe_client.cli.arguments import AsJson
from troupe_client.cli.lookup import find_named
from troupe_client.cli.output import plain_table, print_json, print_line, print_result, print_table, visible
from troupe_client.server_api import Server, find_server

app = typer.Typer()
Name = Annotated[str, typer.Argument(help="Name or number of the view, as `troupe view list` shows it.")]


@app.command("list")
def views(as_json: AsJson = False) -> None:
    """List saved views: your own, and those of your projects."""
    rows = _all(find_server())
    if as_json:
        return print_json(rows)
    table = plain_table("view", "name", "of", "default", "shows", wrap=("name", "shows"))
    for row in rows:
        query = "  ".join(f"{key}={value}" for key, value in row["query"].items())
        cells = (row["name"], row["project"] or "you", "default" if row["default"] else "", query)
        table.add_row(str(row["id"]), *(Text(visible(cell)) for cell in cells))
    print_table(table) if rows else print_line(
        "No views yet: troupe view save NAME --filter 'state = failed'"
    )


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


@app.command("edit")
def view_change(
    view: Name,
    name: Annotated[str, typer.Option(help="New name.")] = "",
    default: Annotated[
        bool | None, typer.Option("--default/--no-default", help="Open this view by default.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Rename a view, or make it the default."""
    server = find_server()
    path = f"/api/v1/views/{view_find(server, view)['id']}/"
    _print(server.send("PATCH", path, {"name": name, "default": default}), as_json)


@app.command("delete")
def view_remove(view: Name, as_json: AsJson = False) -> None:
    """Delete a view."""
    server = find_server()
    _print(server.send("DELETE", f"/api/v1/views/{view_find(server, view)['id']}/"), as_json)


def view_find(server: Server, name: str) -> dict[str, Any]:
    """Return a saved view by its name or number; see `find_named`."""
    return find_named(_all(server), name, "view")


def _all(server: Server) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = server.call("/api/v1/views/")["results"]
    return rows


def _print(view: dict[str, Any], as_json: bool) -> None:
    label = "removed" if view.get("deleted") else "default" if view["default"] else view["project"] or "yours"
    print_result(view, as_json, f"{view['id']}  {view['name']}  {label}")
