"""Runs from elsewhere: TensorBoard's event files."""

import json
from pathlib import Path
from typing import Annotated

import typer

from troupe_client.cli.show import console
from troupe_client.server_api import find_server

app = typer.Typer()


@app.command("import-tensorboard")
def import_tensorboard(
    folder: Annotated[
        Path, typer.Argument(help="A log folder; each folder below it with event files is a run.")
    ],
    project: Annotated[str, typer.Option(help="Slug of the project; default: your first.")] = "",
    tag: Annotated[list[str] | None, typer.Option(help="A tag; may be given several times.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for scripts.")] = False,
) -> None:
    """Bring TensorBoard event files in; safe to repeat, what is new is added."""
    from troupe_client.reporting.tensorboard import import_folder, log_folders

    server, made = find_server(), []
    folders = log_folders(folder)
    for number, each in enumerate(folders, 1):
        name = str(each.relative_to(folder)) if each != folder else folder.resolve().name
        with console.status(f"run {number} of {len(folders)}: {name}"):
            run, values = import_folder(server, each, project, name, ["tensorboard", *(tag or [])])
        made.append({"run": run, "name": name, "values": values})
        if not as_json:
            console.print(f"{run}  {name}  {values} values", highlight=False, markup=False)
    if as_json:
        typer.echo(json.dumps(made, indent=2))
