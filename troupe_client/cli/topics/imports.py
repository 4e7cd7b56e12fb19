"""`troupe tensorboard import`: import event files of TensorBoard."""

from pathlib import Path
from typing import Annotated

import typer

from troupe_client.cli.arguments import AsJson, InProject, Tags
from troupe_client.cli.output import console, print_json, print_line
from troupe_client.server_api import find_server

app = typer.Typer()


@app.command("import")
def import_tensorboard(
    folder: Annotated[
        Path, typer.Argument(help="A log folder; each folder below it with event files becomes a run.")
    ],
    project: InProject = "",
    tag: Tags = None,
    as_json: AsJson = False,
) -> None:
    """Import TensorBoard event files; repeat it to add new values."""
    from troupe_client.reporting.tensorboard import import_folder, log_folders

    server, imported = find_server(), []
    folders = log_folders(folder)
    for number, log_folder in enumerate(folders, 1):
        name = str(log_folder.relative_to(folder)) if log_folder != folder else folder.resolve().name
        with console.status(f"run {number} of {len(folders)}: {name}"):
            run, values = import_folder(server, log_folder, project, name, ["tensorboard", *(tag or [])])
        imported.append({"run": run, "name": name, "values": values})
        if not as_json:
            print_line(f"{run}  {name}  {values} values")
    if as_json:
        print_json(imported)
