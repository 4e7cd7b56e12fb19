"""`troupe tensorboard import`: import event files of TensorBoard."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Annotated

import typer

from training_core.errors import TroupeError
from troupe_client.cli.arguments import AsJson, InProject, Tags
from troupe_client.cli.output import console, errors, print_json, print_line
from troupe_client.cli.topics.importing import exit_for, left_aside, left_out
from troupe_client.reporting.importing import Skipped
from troupe_client.server_api import find_server

if TYPE_CHECKING:
    from troupe_client.reporting.tensorboard import FolderImport

app = typer.Typer()


@app.command("import")
def import_tensorboard(
    folder: Annotated[
        Path, typer.Argument(help="A log folder; each folder below it with event files becomes a run.")
    ],
    project: InProject = "",
    tag: Tags = None,
    as_json: AsJson = False,
    follow: Annotated[
        bool,
        typer.Option("--follow", help="Continue while programs write, until Ctrl-C or Stop on the page."),
    ] = False,
) -> None:
    """Import TensorBoard event files; repeat it to add new values."""
    from troupe_client.reporting import tensorboard

    server = find_server()
    imports: dict[Path, FolderImport] = {}
    skipped: Skipped = {}

    def current() -> list["FolderImport"]:
        for path in tensorboard.log_folders(folder):
            if path not in imports:
                name = str(path.relative_to(folder)) if path != folder else folder.resolve().name
                tags = ["tensorboard", *(tag or [])]
                imports[path] = tensorboard.FolderImport(server, path, project, name, tags)
        return list(imports.values())

    if not follow and not current():
        raise TroupeError(f"there are no TensorBoard event files (*tfevents*) below {folder}")
    try:
        if follow:
            errors.print(f"Following {folder}; end it with Ctrl-C")
            with _until_signal() as stopping:
                tensorboard.follow(current, stopping, errors.print)
        for number, item in enumerate(imports.values(), 1):
            waiting = console.status(f"run {number} of {len(imports)}: {item.name}")
            with waiting, left_aside(item.name, skipped):
                item.update()
                if item.damage:
                    skipped[f"a part of {item.name}"] = item.damage
    finally:
        for item in imports.values():
            with left_aside(f"the end of {item.name}", skipped):
                item.end()
    _report(list(imports.values()), as_json=as_json)
    exit_for(skipped)


@contextmanager
def _until_signal() -> Iterator[Event]:
    """An event that Ctrl-C and SIGTERM set; a second signal ends the program."""
    stopping, numbers = Event(), (signal.SIGINT, signal.SIGTERM)
    before = {int(number): signal.getsignal(number) for number in numbers}

    def stop(number: int, _: object) -> None:
        stopping.set()
        signal.signal(number, before[number])

    for number in numbers:
        signal.signal(number, stop)
    yield stopping
    for number in numbers:
        signal.signal(number, before[number])


def _report(imports: list["FolderImport"], *, as_json: bool) -> None:
    if as_json:
        print_json(
            [
                {"run": item.run, "name": item.name, "values": item.count, "left_out": item.left_out}
                for item in imports
            ]
        )
    for item in imports if not as_json else ():
        print_line(f"{item.run}  {item.name}  {item.count} values{left_out(item.left_out)}")
