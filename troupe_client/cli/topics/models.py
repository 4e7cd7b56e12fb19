"""`troupe model`: base models of this machine's data folder."""

import json
from dataclasses import asdict
from typing import Annotated

import typer
from rich.progress import BarColumn, Progress, TextColumn
from rich.table import Table

from troupe_client.cli.show import console
from troupe_client.server_api import home

app = typer.Typer()
model = typer.Typer(help="Base models: list them, add one.", no_args_is_help=True)
app.add_typer(model, name="model")
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for scripts.")]


@model.callback()
def _model() -> None:
    """Base models: list them, add one."""


@model.command("list")
def model_list(as_json: AsJson = False) -> None:
    """Names that policies.*.model accepts on this machine, hub ids and paths aside."""
    from workers.storage.base_models import base_models

    models = base_models(home())
    if as_json:
        typer.echo(json.dumps([asdict(each) for each in models], indent=2))
        return
    table = Table(box=None, pad_edge=False, header_style="dim")
    for heading in ("name", "model", "state"):
        table.add_column(heading)
    table.add_column("parameters", justify="right")
    for each in models:
        missing = f"not installed: {each.install}" if each.install else "made at first use"
        size = f"{each.parameters:,}" if each.parameters else ""
        table.add_row(each.name, each.title, "ready" if each.ready else missing, size)
    console.print(table)


@model.command("add")
def model_add(
    source: Annotated[
        str, typer.Argument(help="A packaged model (smollm2), a model folder, or a .gguf file.")
    ],
    name: Annotated[
        str, typer.Option(help="Name of the model; default: the name of the folder or file.")
    ] = "",
    as_json: AsJson = False,
) -> None:
    """Put a base model into the data folder, so that policies.*.model can name it. GGUF files are converted."""
    from training_core.llm.base_models.user_models import add_model  # torch: only for this command

    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.percentage:>3.0f} %"))
    with Progress(*columns, console=console, transient=True, disable=as_json) as bar:
        task = bar.add_task(source, total=1.0)
        folder = add_model(
            source, name, home(), lambda done, text: bar.update(task, completed=done, description=text)
        )
    if as_json:
        typer.echo(json.dumps({"name": folder.name, "folder": str(folder)}))
    else:
        console.print(f"{folder.name} is ready: policies.NAME.model={folder.name}", highlight=False)
