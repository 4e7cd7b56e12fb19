"""Saved views: ways to look at the runs table, kept under names."""

import json
from typing import Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from troupe_client.cli.show import console, visible
from troupe_client.server_api import Server, ServerFailure, find_server

app = typer.Typer()
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for scripts.")]
Name = Annotated[str, typer.Argument(help="Name or number of the view, as `troupe views` shows it.")]


@app.command()
def views(as_json: AsJson = False) -> None:
    """List saved views: yours, and those of your projects."""
    found = _all(find_server())
    if as_json:
        return _print_json(found)
    table = Table("view", "name", "of", "default", "shows", box=None, pad_edge=False, header_style="dim")
    for row in found:
        shows = "  ".join(f"{word}={value}" for word, value in row["query"].items())
        cells = (row["name"], row["project"] or "you", "default" if row["default"] else "", shows)
        table.add_row(str(row["id"]), *(Text(visible(cell)) for cell in cells))
    console.print(table if found else "No views yet: troupe view-save NAME --filter 'state = failed'")


@app.command("view-save")
def view_save(
    name: Annotated[str, typer.Argument(help="What to call it.")],
    filter_text: Annotated[str, typer.Option("--filter", help="E.g. 'eval/success > 0.8'.")] = "",
    sort: Annotated[str, typer.Option(help="E.g. -eval/success.")] = "",
    columns: Annotated[str, typer.Option(help="E.g. run.seed,eval/success:max.")] = "",
    group: Annotated[str, typer.Option(help="family: runs that differ by seed alone, together.")] = "",
    project: Annotated[str, typer.Option(help="Share it with this project (slug); else it is yours.")] = "",
    replace: Annotated[bool, typer.Option("--replace", help="Replace one of the same name.")] = False,
    as_json: AsJson = False,
) -> None:
    """Keep a filter, order, columns and grouping under a name."""
    query = {"filter": filter_text, "sort": sort, "columns": columns, "group": group}
    body = {"name": name, "query": query, "project": project, "replace": replace}
    _said(find_server().call("/api/v1/views/", body), as_json)


@app.command("view-change")
def view_change(
    view: Name,
    name: Annotated[str, typer.Option(help="Another name.")] = "",
    default: Annotated[
        bool | None, typer.Option("--default/--no-default", help="Open it where nothing is asked for.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Rename a view, or make it the default."""
    server = find_server()
    path = f"/api/v1/views/{view_find(server, view)['id']}/"
    _said(server.send("PATCH", path, {"name": name, "default": default}), as_json)


@app.command("view-remove")
def view_remove(view: Name, as_json: AsJson = False) -> None:
    """Forget a view."""
    server = find_server()
    _said(server.send("DELETE", f"/api/v1/views/{view_find(server, view)['id']}/"), as_json)


def view_find(server: Server, name: str) -> dict[str, Any]:
    """By name, else by number. Raises ServerFailure where none, or several, are called so."""
    rows = _all(server)
    found = [row for row in rows if row["name"] == name] or [row for row in rows if str(row["id"]) == name]
    if len(found) != 1:
        known = ", ".join(f"{row['name']} ({row['id']})" for row in rows) or "none yet"
        what = "several views are called" if found else "there is no view"
        raise ServerFailure(f"{what} {name!r}; views are {known}")
    return found[0]


def _all(server: Server) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = server.call("/api/v1/views/")["results"]
    return found


def _said(view: dict[str, Any], as_json: bool) -> None:
    if as_json:
        return _print_json(view)
    word = "removed" if view.get("deleted") else "default" if view["default"] else view["project"] or "yours"
    console.print(Text(visible(f"{view['id']}  {view['name']}  {word}")), soft_wrap=True)


def _print_json(value: Any) -> None:
    typer.echo(json.dumps(value, indent=2, ensure_ascii=False))
