"""Checkpoints: fork, download, pin, delete, lineage."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table
from rich.text import Text
from rich.tree import Tree

from troupe_client.cli.show import OUTCOMES, console, known, number, visible
from troupe_client.server_api import ServerFailure, find_server, run_path

app = typer.Typer()
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for scripts.")]
RunId = Annotated[str, typer.Argument(help="Id of the run.")]
MARKS = ("best", "pinned", "damaged", "removed")
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
    merge: Annotated[
        bool,
        typer.Option("--merge", help="Merge adapters into their base models, which must be readable here."),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Fetch a checkpoint: a folder per policy, Hugging Face's where it is a language model."""
    from troupe_client.cli.fetching import fetch_tar

    place = fetch_tar(find_server(), checkpoint_path(run_id, checkpoint, "download/"), to, policy=policy)
    if merge:
        from training_core.llm.models.loading import merge_folder  # torch: seconds

        for item in place.iterdir():
            merge_folder(item)
    folders = sorted(str(item) for item in place.iterdir() if item.is_dir())
    if as_json:
        return typer.echo(json.dumps({"folder": str(place), "policies": folders}, indent=2))
    for folder in folders:
        console.print(folder, highlight=False, markup=False, soft_wrap=True)


@app.command()
def checkpoints(run_id: RunId, as_json: AsJson = False) -> None:
    """List a run's checkpoints, newest first."""
    rows = find_server().call(run_path(run_id, "checkpoints/"))["results"]
    if as_json:
        return typer.echo(json.dumps(rows, indent=2))
    table = Table(box=None, pad_edge=False, header_style="dim")
    shown = known([row["metrics"] for row in rows], OUTCOMES)
    for heading in ("iteration", "size", *shown, "marks"):
        table.add_column(heading, justify="left" if heading == "marks" else "right")
    for row in rows:
        marks = [mark for mark in MARKS if row[mark]]
        figures = [number(row["metrics"].get(key)) for key in shown]
        table.add_row(str(row["iteration"]), f"{row['size'] / 1e6:.1f} MB", *figures, " ".join(marks))
    console.print(table)


@app.command()
def pin(
    run_id: RunId,
    checkpoint: Name,
    off: Annotated[bool, typer.Option("--off", help="Leave it to retention again.")] = False,
    as_json: AsJson = False,
) -> None:
    """Keep a checkpoint whatever retention says."""
    _act(run_id, checkpoint, "unpin" if off else "pin", as_json)


@app.command()
def delete_checkpoint(run_id: RunId, checkpoint: Name, as_json: AsJson = False) -> None:
    """Delete a checkpoint from disk."""
    _act(run_id, checkpoint, "delete", as_json)


@app.command()
def prune(
    run_id: RunId,
    last: Annotated[int, typer.Option(help="Newest ones to keep.", min=0)] = 1,
    best: Annotated[int, typer.Option(help="Best ones to keep.", min=0)] = 1,
    dry: Annotated[bool, typer.Option("--dry", help="Only say what would be deleted.")] = False,
    as_json: AsJson = False,
) -> None:
    """Delete all checkpoints but the last and the best ones; pinned and forked ones are kept too."""
    done = find_server().call(run_path(run_id, "prune/"), {"last": last, "best": best, "dry": dry})
    if as_json:
        return typer.echo(json.dumps(done, indent=2))
    listed = ", ".join(str(each) for each in done["deleted"]) or "nothing"
    word = "would delete" if dry else "deleted"
    console.print(f"{word} {listed} ({done['bytes'] / 1e6:.1f} MB)", highlight=False)


def _act(run_id: str, name: str, act: str, as_json: bool) -> None:
    row = find_server().call(checkpoint_path(run_id, name, f"{act}/"), {})
    if as_json:
        return typer.echo(json.dumps(row, indent=2))
    marks = [mark for mark in MARKS if row[mark]]
    console.print(f"{row['path']}  {' '.join(marks)}", highlight=False)


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


def _outcome(kin: dict[str, Any]) -> str:
    return (
        number(kin["success"])
        if kin["return"] is None or kin["success"] is not None
        else f"return {number(kin['return'])}"
    )


def _kin(kin: dict[str, Any]) -> Text:
    at = f"  at {kin['forked_at']}" if kin["forked_at"] is not None else ""
    text = f"{kin['id']}  {visible(kin['name'])}{at}  {kin['state']}  {_outcome(kin)}"
    return Text(text, style="bold" if kin["here"] else "")
