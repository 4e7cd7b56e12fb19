"""Commands that import runs from the files of other tools. A kind is a module with `runs_of` and a line of KINDS."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Annotated

import typer

from training_core.errors import TroupeError
from troupe_client.cli.arguments import AsJson, InProject, Tags
from troupe_client.cli.output import console, errors, print_json, print_line
from troupe_client.reporting.importing import ImportedRun, NeedsPackage, Skipped, run_import
from troupe_client.server_api import ServerAway, find_server
from workers.telemetry.delivery import Undelivered

app = typer.Typer()
KINDS: dict[str, tuple[str, str]] = {
    "mlflow": (
        "troupe_client.reporting.from_mlflow",
        "Import the runs of a folder mlruns, or of a file mlflow.db; repeat it to add new values.",
    ),
    "csv": (
        "troupe_client.reporting.from_csv",
        "Import a CSV file, or those below a folder, as a run; repeat it to add new rows.",
    ),
    "wandb": (
        "troupe_client.reporting.from_wandb",
        "Import runs of W&B's offline mode: a file run-ID.wandb, or a folder with such files; repeat it to add new values.",
    ),
}
"""Kind -> the module with `runs_of(path)`, which yields ImportedRun, and the help of the command."""


def left_out(kinds: Mapping[str, int]) -> str:
    """Return a text about what could not be imported; empty if there is nothing."""
    counts = ", ".join(f"{count} {kind}" for kind, count in kinds.items())
    return f"; left out: {counts}" if counts else ""


def _command(kind: str, module: str) -> Callable[..., None]:
    def import_runs(
        path: Annotated[Path, typer.Argument(help="A file or folder of the other tool.")],
        project: InProject = "",
        tag: Tags = None,
        as_json: AsJson = False,
    ) -> None:
        if not path.exists():
            raise TroupeError(f"{path} does not exist")
        runs_of: Callable[[Path, Skipped], Iterator[ImportedRun]] = import_module(module).runs_of
        imported: list[dict[str, object]] = []
        skipped: Skipped = {}
        server = find_server()
        for run in runs_of(path, skipped):
            with console.status(f"run {len(imported) + 1}: {run.name}"), left_aside(run.name, skipped):
                run_id, values = run_import(server, run, project, [kind, *(tag or [])])
                imported.append(
                    {"run": run_id, "name": run.name, "values": values, "left_out": dict(run.left_out)}
                )
                if run.damage:
                    skipped[f"a part of {run.name}"] = run.damage
                if not as_json:
                    print_line(f"{run_id}  {run.name}  {values} values{left_out(run.left_out)}")
        if not imported and not skipped:
            raise TroupeError(f"there are no runs in {path}")
        if as_json:
            print_json(imported)
        exit_for(skipped)

    return import_runs


@contextmanager
def left_aside(name: str, skipped: Skipped) -> Iterator[None]:
    """Note a run whose import fails in `skipped`, so that the others are imported. Raises ServerAway."""
    try:
        yield
    except (ServerAway, NeedsPackage):
        raise
    except (TroupeError, Undelivered, OSError, ValueError) as error:
        skipped[name] = str(error)


def exit_for(skipped: Skipped) -> None:
    """List what is not imported, if anything, and end with status 1."""
    if skipped:
        errors.print(f"Not imported ({len(skipped)}):")
        for name, reason in skipped.items():
            errors.print(f"  {name}: {reason}", markup=False, soft_wrap=True)
        raise typer.Exit(1)


for _kind, (_module, _help) in KINDS.items():
    app.command(_kind, help=_help)(_command(_kind, _module))
