"""The team of an experiment: who speaks when, through which policy, and who learns."""

import json
from collections.abc import Sequence
from typing import Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from workers.cli.show import console, visible
from workers.server_api import find_server

app = typer.Typer()


@app.command()
def team(
    source: Annotated[str, typer.Argument(help="A preset's name, a .toml file, or a run's id with --run.")],
    overrides: Annotated[list[str] | None, typer.Argument(help="Fields to change: key=value.")] = None,
    of_run: Annotated[bool, typer.Option("--run", help="Show the team of the run of that id.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for scripts.")] = False,
) -> None:
    """Show roles in turn order, the policy behind each, and who is trained."""
    from workers.cli.launching import launch_body

    body = {"run": source} if of_run else launch_body(source, overrides or [])
    found = find_server().call("/api/v1/team/", body)
    if as_json:
        return typer.echo(json.dumps(found, indent=2, ensure_ascii=False))
    console.print(
        Text(visible("turn order: " + " → ".join(" + ".join(step) for step in found["steps"]))),
        soft_wrap=True,
    )
    roles = [
        (each["role"], each["policy"], _learns(each["trained"]), each["prompt"]) for each in found["roles"]
    ]
    console.print(_table(("role", "policy", "learns", "prompt"), roles))
    policies = [
        (each["policy"], each["model"], ", ".join(each["roles"]) or "nobody", _learns(each["trained"]))
        for each in found["policies"]
    ]
    console.print(_table(("policy", "model", "speaks for", "learns"), policies))


def _learns(trained: Any) -> str:
    return "trained" if trained else "frozen"


def _table(headings: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> Table:
    table = Table(*headings, box=None, pad_edge=False, header_style="dim")
    for row in rows:
        table.add_row(*(Text(visible(cell)) for cell in row))
    return table
