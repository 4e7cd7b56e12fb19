"""Curves and what is marked on them."""

import json
import sys
from typing import Annotated, Any

import typer
from rich.text import Text

from workers.cli.api import find_server, run_path
from workers.cli.show import console, visible

app = typer.Typer()
RunId = Annotated[str, typer.Argument(help="Id of the run, as `troupe runs` shows it.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for scripts.")]


@app.command()
def events(
    run_id: RunId,
    kind: Annotated[str, typer.Option(help="Only these: checkpoint, attempt, edit, finding or note.")] = "",
    as_json: AsJson = False,
) -> None:
    """List what is marked on a run's curves: checkpoints, attempts, edits of the config, findings, notes."""
    found = find_server().call(run_path(run_id, "marks/"))["results"]
    found = [each for each in found if kind in ("", each["kind"])]
    if as_json:
        return _print_json(found)
    for each in found:
        step = "run" if each["step"] is None else f"step {each['step']}"
        _line(f"{step}  {each['kind']}  {each['title']}  {each['detail']}".rstrip())
    if not found:
        console.print("Nothing is marked yet.")


@app.command()
def run_note(
    run_id: RunId,
    text: Annotated[str, typer.Argument(help="What to say of it.")],
    step: Annotated[
        int | None, typer.Option(help="Iteration to mark; without it, the whole run.", min=0)
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Note something about a run; at a step, it is marked on its curves."""
    body = {"text": text} | ({} if step is None else {"step": step})
    made = find_server().call(run_path(run_id, "notes/"), body)
    _print_json(made) if as_json else _show_note(made)


@app.command()
def run_notes(run_id: RunId, as_json: AsJson = False) -> None:
    """List the notes on a run, newest first."""
    found = find_server().call(run_path(run_id, "notes/"))["results"]
    if as_json:
        return _print_json(found)
    for each in found:
        _show_note(each)
    if not found:
        console.print("No notes yet: troupe run-note RUN TEXT --step STEP")


@app.command()
def run_note_remove(
    run_id: RunId,
    number: Annotated[
        int, typer.Argument(metavar="NOTE", help="Number of the note, as `troupe run-notes` shows it.", min=1)
    ],
    as_json: AsJson = False,
) -> None:
    """Take a note on a run away."""
    gone = find_server().call(run_path(run_id, f"notes/{number}/remove/"), {})
    _print_json(gone) if as_json else _line(f"{gone['id']}  removed")


def _show_note(note: dict[str, Any]) -> None:
    where = "run" if note["step"] is None else f"step {note['step']}"
    _line(f"{note['id']}  {where}  {note['author'] or '-'}  {note['text']}")


def _line(text: str) -> None:
    console.print(Text(visible(text)), soft_wrap=True)


def _print_json(value: Any) -> None:
    sys.stdout.write(json.dumps(value, indent=2, ensure_ascii=False) + "\n")
