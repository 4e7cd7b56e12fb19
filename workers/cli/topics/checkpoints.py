"""Checkpoints: fork, download, lineage."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.text import Text
from rich.tree import Tree

from workers.cli.api import ServerFailure, find_server, run_path
from workers.cli.show import console, number, visible

app = typer.Typer()
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for scripts.")]
RunId = Annotated[str, typer.Argument(help="Id of the run.")]
Name = Annotated[str, typer.Argument(help="last, best, or an iteration.")]


@app.command()
def fork(
    run_id: RunId,
    checkpoint: Name,
    overrides: Annotated[
        list[str] | None, typer.Argument(help="Fields to change: key=value, e.g. run.seed=1.")
    ] = None,
    name: Annotated[str, typer.Option(help="Shown in tables.")] = "",
    tag: Annotated[list[str] | None, typer.Option(help="A tag; may be given several times.")] = None,
    as_json: AsJson = False,
) -> None:
    """Launch a new run that starts from a checkpoint, with fields of the config changed."""
    from training_core.config.files import parse_overrides

    body: dict[str, Any] = {"overrides": parse_overrides(overrides or []), "name": name, "tags": tag or []}
    server = find_server()
    made = server.call(checkpoint_path(run_id, checkpoint, "fork/"), body)
    if as_json:
        return typer.echo(json.dumps(made, indent=2))
    page = server.address(made["links"]["page"])
    console.print(f"{made['id']}  {made['state']}  {page}", highlight=False, soft_wrap=True)


@app.command()
def download(
    run_id: RunId,
    checkpoint: Name = "last",
    policy: Annotated[str, typer.Option(help="Only this policy.")] = "",
    to: Annotated[
        Path | None, typer.Option(help="Folder to make; default: named for run and iteration.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Fetch a checkpoint as Hugging Face folders, one per policy."""
    from workers.cli.fetching import fetch_tar

    place = fetch_tar(find_server(), checkpoint_path(run_id, checkpoint, "download/"), to, policy=policy)
    folders = sorted(str(item) for item in place.iterdir())
    if as_json:
        return typer.echo(json.dumps({"folder": str(place), "policies": folders}, indent=2))
    for folder in folders:
        console.print(folder, highlight=False, markup=False, soft_wrap=True)


@app.command()
def lineage(run_id: RunId, as_json: AsJson = False) -> None:
    """Show which run this one was forked from, and which were forked from it."""
    found = find_server().call(run_path(run_id, "lineage/"))
    if as_json:
        return typer.echo(json.dumps(found, indent=2))
    tree = Tree(_kin(found))
    _grow(tree, found["forks"])
    console.print(tree)


def checkpoint_path(run_id: str, name: str, below: str) -> str:
    """Address of something of a checkpoint. Raises ServerFailure for what can be no name."""
    if not name.isascii() or not name.replace("-", "").isalnum():
        raise ServerFailure(f"{name!r} names no checkpoint; give last, best or an iteration")
    return run_path(run_id, f"checkpoints/{name}/{below}")


def _grow(tree: Tree, forks: list[dict[str, Any]]) -> None:
    for kin in forks:
        _grow(tree.add(_kin(kin)), kin["forks"])


def _kin(kin: dict[str, Any]) -> Text:
    at = f"  at {kin['forked_at']}" if kin["forked_at"] is not None else ""
    text = f"{kin['id']}  {visible(kin['name'])}{at}  {kin['state']}  {number(kin['success'])}"
    return Text(text, style="bold" if kin["here"] else "")
