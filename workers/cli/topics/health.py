"""Findings and rules."""

import json
import sys
from typing import Annotated, Any

import typer
from rich.text import Text

from workers.cli.api import find_server, run_path
from workers.cli.show import console, visible

app = typer.Typer()
RunId = Annotated[str, typer.Argument(help="Id of the run, as `troupe runs` shows it.")]
FindingId = Annotated[int, typer.Argument(help="Number of the finding, as `troupe health` shows it.", min=1)]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for scripts.")]
COLOURS = {"bad": "bold red", "warn": "yellow"}


@app.command()
def health(
    run_id: RunId,
    every: Annotated[bool, typer.Option("--all", help="Also what is resolved or dismissed.")] = False,
    as_json: AsJson = False,
) -> None:
    """Say what is wrong with a run, why that may be, and what to do."""
    found = find_server().call(run_path(run_id, "findings/"), state="" if every else "open")["results"]
    if as_json:
        return _print_json(found)
    for each in found:
        _show(each)
    if not found:
        console.print("No rule has anything to say.")


@app.command()
def dismiss(run_id: RunId, finding: FindingId, as_json: AsJson = False) -> None:
    """Hear no more of a finding."""
    _act(run_id, finding, "dismiss", as_json)


@app.command()
def reopen(run_id: RunId, finding: FindingId, as_json: AsJson = False) -> None:
    """Count a dismissed finding again."""
    _act(run_id, finding, "reopen", as_json)


def _act(run_id: str, finding: int, act: str, as_json: bool) -> None:
    found = find_server().call(run_path(run_id, f"findings/{finding}/{act}/"), {})
    if as_json:
        return _print_json(found)
    _line(f"{found['id']}  {found['state']}  {found['title']}")


def _show(found: dict[str, Any]) -> None:
    where = f"steps {found['first_step']} to {found['last_step']}"
    word = found["severity"] if found["state"] == "open" else found["state"]
    _line(f"{found['id']}  {word}  {found['title']}  ({where})", COLOURS.get(word, "dim"))
    for name in ("cause", "remedy", "done"):
        if found[name]:
            _line(f"    {name}: {found[name]}")


def _line(text: str, style: str = "") -> None:
    console.print(Text(visible(text), style=style), soft_wrap=True)


def _print_json(value: Any) -> None:
    sys.stdout.write(json.dumps(value, indent=2, ensure_ascii=False) + "\n")
