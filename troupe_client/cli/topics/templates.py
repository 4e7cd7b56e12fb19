"""`troupe template`: experiments saved under a name."""

import json
from typing import Annotated, Any

import typer

from troupe_client.cli.arguments import AsJson, InProject, Overrides
from troupe_client.cli.output import (
    print_json,
    print_launched,
    print_line,
    print_result,
)
from troupe_client.cli.resources import find_named
from troupe_client.server_api import Server, ServerFailure, find_server
from workers.provenance.collecting import launch_provenance

app = typer.Typer()
Name = Annotated[
    str, typer.Argument(help="Name or number of the template, as `troupe template list` shows it.")
]


@app.command("save")
def template_save(
    name: Annotated[str, typer.Argument(help="Name of the template.")],
    preset: Annotated[str, typer.Argument(help="Name of a preset, or the id of a run with --run.")],
    overrides: Overrides = None,
    from_run: Annotated[bool, typer.Option("--run", help="Use the config of the run with this id.")] = False,
    description: Annotated[str, typer.Option(help="Description of the template.")] = "",
    project: InProject = "",
    replace: Annotated[bool, typer.Option("--replace", help="Replace a template with this name.")] = False,
    as_json: AsJson = False,
) -> None:
    """Save a preset with changed fields, or a run's config, under a name."""
    from training_core.config.files import parse_overrides

    body: dict[str, Any] = {"name": name, "description": description, "project": project, "replace": replace}
    changes = parse_overrides(overrides or [])
    if from_run and changes:
        raise ServerFailure("a run's config is saved unchanged; remove the changes")
    body |= {"run": preset} if from_run else {"preset": preset, "overrides": changes}
    saved = find_server().call("/api/v1/templates/", body)
    print_result(saved, as_json, f"{saved['id']}  {saved['name']}  {len(saved['overrides'])} changes")


@app.command("show")
def template_show(name: Name, as_json: AsJson = False) -> None:
    """Show the changes of a template."""
    saved = find_named(_all(find_server()), name, "template")
    if as_json:
        return print_json(saved)
    print_line(f"{saved['name']}  {saved['preset']}  {saved['description']}")
    for path, value in saved["overrides"].items():
        print_line(f"  {path} = {json.dumps(value)}")


@app.command("launch")
def template_launch(
    name: Name,
    overrides: Overrides = None,
    run_name: Annotated[str, typer.Option("--name", help="Name of the run, shown in tables.")] = "",
    project: Annotated[str, typer.Option(help="Slug of the project; default: the template's project.")] = "",
    as_json: AsJson = False,
) -> None:
    """Launch a run from a template, with further changes."""
    from training_core.config.files import parse_overrides

    changes, server = parse_overrides(overrides or []), find_server()
    path = f"/api/v1/templates/{find_named(_all(server), name, 'template')['id']}/launch/"
    body = {"overrides": changes, "name": run_name, "project": project}
    print_launched(
        server, server.call(path, body | {"provenance": launch_provenance("command line")}), as_json
    )


def _all(server: Server) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = server.call("/api/v1/templates/")["results"]
    return rows
