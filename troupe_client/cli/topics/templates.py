"""Templates: experiments kept under a name."""

import json
import sys
from typing import Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from troupe_client.cli.show import console, visible
from troupe_client.server_api import Server, ServerFailure, find_server

app = typer.Typer()
template = typer.Typer(help="Experiments that are kept under a name.", no_args_is_help=True)
app.add_typer(template, name="template")
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for scripts.")]
Name = Annotated[
    str, typer.Argument(help="Name or number of the template, as `troupe template list` shows it.")
]
Overrides = Annotated[list[str] | None, typer.Argument(help="Fields to change: key=value.")]
Project = Annotated[str, typer.Option(help="Slug of the project; default: your first.")]


@template.command("list")
def template_list(as_json: AsJson = False) -> None:
    """List the templates of your projects."""
    found = _all(find_server())
    if as_json:
        return _print_json(found)
    table = Table("template", "name", "preset", "changes", "project", "description", box=None, pad_edge=False)
    for row in found:
        words = (Text(visible(row[key])) for key in ("name", "preset"))
        rest = (str(len(row["overrides"])), row["project"], Text(visible(row["description"])))
        table.add_row(str(row["id"]), *words, *rest)
    console.print(table if found else "No templates yet: troupe template save NAME PRESET key=value")


@template.command("save")
def template_save(
    name: Annotated[str, typer.Argument(help="What to call it.")],
    preset: Annotated[str, typer.Argument(help="A preset's name, or a run's id with --run.")],
    overrides: Overrides = None,
    from_run: Annotated[bool, typer.Option("--run", help="Take the config of the run of that id.")] = False,
    description: Annotated[str, typer.Option(help="What it is for.")] = "",
    project: Project = "",
    replace: Annotated[bool, typer.Option("--replace", help="Replace one of the same name.")] = False,
    as_json: AsJson = False,
) -> None:
    """Keep a preset with changed fields, or a run's config, under a name."""
    from training_core.config.files import parse_overrides

    body: dict[str, Any] = {"name": name, "description": description, "project": project, "replace": replace}
    changes = parse_overrides(overrides or [])
    if from_run and changes:
        raise ServerFailure("a run's config is kept as it is; leave out the changes")
    body |= {"run": preset} if from_run else {"preset": preset, "overrides": changes}
    _said(find_server().call("/api/v1/templates/", body), as_json)


@template.command("show")
def template_show(name: Name, as_json: AsJson = False) -> None:
    """Show what a template changes."""
    found = _find(find_server(), name)
    if as_json:
        return _print_json(found)
    _line(f"{found['name']}  {found['preset']}  {found['description']}")
    for path, value in found["overrides"].items():
        _line(f"  {path} = {json.dumps(value)}")


@template.command("launch")
def template_launch(
    name: Name,
    overrides: Overrides = None,
    run_name: Annotated[str, typer.Option("--name", help="Shown in tables.")] = "",
    project: Annotated[str, typer.Option(help="Slug of the project; default: the template's.")] = "",
    as_json: AsJson = False,
) -> None:
    """Launch a run from a template, with further changes."""
    from training_core.config.files import parse_overrides

    changes, server = parse_overrides(overrides or []), find_server()
    path = f"/api/v1/templates/{_find(server, name)['id']}/launch/"
    made = server.call(path, {"overrides": changes, "name": run_name, "project": project})
    if as_json:
        return _print_json(made)
    _line(f"{made['id']}  {made['state']}  {server.address(made['links']['page'])}")


@template.command("delete")
def template_delete(name: Name, as_json: AsJson = False) -> None:
    """Delete a template; runs that started from it stay."""
    server = find_server()
    gone = server.send("DELETE", f"/api/v1/templates/{_find(server, name)['id']}/")
    _print_json(gone) if as_json else _line(f"{gone['name']}  deleted")


def _all(server: Server) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = server.call("/api/v1/templates/")["results"]
    return found


def _find(server: Server, name: str) -> dict[str, Any]:
    """By name, else by number. Raises ServerFailure where none, or several of other projects, are called so."""
    rows = _all(server)
    found = [row for row in rows if row["name"] == name] or [row for row in rows if str(row["id"]) == name]
    if len(found) != 1:
        known = ", ".join(f"{row['name']} ({row['id']})" for row in rows) or "none yet"
        what = "several templates are called" if found else "there is no template"
        raise ServerFailure(f"{what} {name!r}; templates are {known}")
    return found[0]


def _said(made: dict[str, Any], as_json: bool) -> None:
    _print_json(made) if as_json else _line(f"{made['id']}  {made['name']}  {len(made['overrides'])} changes")


def _line(text: str) -> None:
    console.print(Text(visible(text)), soft_wrap=True)


def _print_json(value: Any) -> None:
    sys.stdout.write(json.dumps(value, indent=2, ensure_ascii=False) + "\n")
