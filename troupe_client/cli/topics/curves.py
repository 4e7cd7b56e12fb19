"""Curves and what is marked on them."""

import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from troupe_client.cli.fetching import write_lines
from troupe_client.cli.show import console, visible
from troupe_client.server_api import find_server, run_path

app = typer.Typer()
RunId = Annotated[str, typer.Argument(help="Id of the run, as `troupe runs` shows it.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for scripts.")]


@app.command()
def curves(
    run_id: RunId,
    search: Annotated[str, typer.Argument(help="Only metrics with this in their name.")] = "",
    as_json: AsJson = False,
) -> None:
    """List a run's metrics: how many points, the last step and value."""
    found = find_server().call(run_path(run_id, "series/"))["keys"]
    found = [each for each in found if search in each["key"]]
    if as_json:
        return _print_json(found)
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("metric")
    for heading in ("points", "step", "value"):
        table.add_column(heading, justify="right")
    for each in found:
        last = each["last_value"]
        last = last if isinstance(last, str) else f"{last:.6g}"
        table.add_row(Text(visible(each["key"])), str(each["count"]), str(each["last_step"]), last)
    console.print(table if found else "No such metric.")


@app.command()
def export_curves(
    run_id: RunId,
    metrics: Annotated[list[str] | None, typer.Argument(help="Their names; without any, all.")] = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="A file; without it, standard output.", dir_okay=False),
    ] = None,
) -> None:
    """Write metrics as CSV, every point a row: metric, attempt, step, time, value."""
    lines = find_server().lines(run_path(run_id, "series/export/"), keys=",".join(metrics or []))
    count = write_lines(lines, output)
    if output is not None:
        _line(f"{count - 1} points in {output}")  # the header is no point


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
def cost(run_id: RunId, as_json: AsJson = False) -> None:
    """Say what a run has cost: time, device hours, tokens; and what it will."""
    found = find_server().call(run_path(run_id, "cost/"))
    if as_json:
        return _print_json(found)
    _line(
        f"ran {found['seconds']:.0f} s in {len(found['attempts'])} attempts, waited {found['waited']:.0f} s"
    )
    for name, word in (("gpu", "GPU hours"), ("cpu", "CPU core hours")):
        if found[f"{name}s"]:
            expected = found[f"expected_{name}_hours"]
            more = "" if expected is None else f", {expected:.3f} at its end"
            _line(f"{found[f'{name}_hours']:.3f} {word} ({found[f'{name}s']:g} held){more}")
    again = f", {found['tokens_again']} of them played again" if found["tokens_again"] else ""
    _line(f"{found['tokens']} training tokens{again}")
    if found["eta_seconds"] is not None:
        _line(f"{found['eta_seconds']:.0f} s left")


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
def run_note_change(
    run_id: RunId,
    number: Annotated[
        int, typer.Argument(metavar="NOTE", help="Number of the note, as `troupe run-notes` shows it.", min=1)
    ],
    text: Annotated[str, typer.Argument(help="What it says from now on.")],
    as_json: AsJson = False,
) -> None:
    """Change the words of a note on a run."""
    changed = find_server().call(run_path(run_id, f"notes/{number}/change/"), {"text": text})
    _print_json(changed) if as_json else _show_note(changed)


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
