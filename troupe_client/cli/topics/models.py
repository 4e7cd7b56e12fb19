"""`troupe model`: base models in this machine's data folder."""

from dataclasses import asdict
from typing import Annotated

import typer
from rich.progress import BarColumn, Progress, TextColumn

from troupe_client.cli.arguments import AsJson
from troupe_client.cli.output import console, plain_table, print_json, print_result, print_table
from troupe_client.server_api import home

app = typer.Typer()


@app.command("list")
def model_list(as_json: AsJson = False) -> None:
    """List the names that policies.*.model accepts on this machine, in addition to hub ids and paths."""
    from workers.storage.base_models import base_models

    models = base_models(home())
    if as_json:
        return print_json([asdict(base_model) for base_model in models])
    table = plain_table(
        "name", "model", "state", "parameters", right=("parameters",), wrap=("model", "state")
    )
    for base_model in models:
        install = base_model.install
        missing = f"not installed: {install}" if install else "created when first used"
        parameters = f"{base_model.parameters:,}" if base_model.parameters else ""
        state = "ready" if base_model.ready else missing
        table.add_row(base_model.name, base_model.title, state, parameters)
    print_table(table, ["model"])


@app.command("add")
def model_add(
    source: Annotated[
        str,
        typer.Argument(
            help="A packaged model (smollm2), a model folder, or a .gguf file, which is converted."
        ),
    ],
    name: Annotated[
        str, typer.Option(help="Name of the model; default: the name of the folder or file.")
    ] = "",
    as_json: AsJson = False,
) -> None:
    """Add a base model to the data folder, so that policies.*.model can name it."""
    from training_core.llm.base_models.registry import add_model  # imports torch

    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.percentage:>3.0f}%"))
    with Progress(*columns, console=console, transient=True, disable=as_json) as bar:
        task = bar.add_task(source, total=1.0)
        folder = add_model(
            source, name, home(), lambda share, text: bar.update(task, completed=share, description=text)
        )
    added = {"name": folder.name, "folder": str(folder)}
    print_result(added, as_json, f"{folder.name} is ready: policies.NAME.model={folder.name}")
