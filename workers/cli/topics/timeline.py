"""Who worked when."""

import json
from typing import Annotated

import typer
from rich.table import Table

from workers.cli.api import find_server, run_path
from workers.cli.show import console

app = typer.Typer()


@app.command()
def timeline(
    run_id: Annotated[str, typer.Argument(help="Id of the run.")],
    first: Annotated[int | None, typer.Option(help="First iteration.", min=0)] = None,
    last: Annotated[int | None, typer.Option(help="Last iteration; default: the latest.", min=0)] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for scripts.")] = False,
) -> None:
    """Shares of time by worker and policy, and how long each waited."""
    found = find_server().call(run_path(run_id, "timeline/"), first=first, last=last)
    if as_json:
        return typer.echo(json.dumps(found, indent=2))
    if not found["lanes"]:
        return console.print("No spans of work yet.")
    whole = max(found["end"] - found["start"], 1e-9)
    table = Table(
        "worker",
        "policy",
        "work",
        "waited",
        title=f"iterations {found['first']} to {found['last']}, {whole:.1f} s",
    )
    for lane in found["lanes"]:
        work = ", ".join(f"{phase} {100 * spent / whole:.0f}%" for phase, spent in lane["busy"].items())
        table.add_row(lane["worker"], lane["policy"], work, f"{100 * lane['waited'] / whole:.0f}%")
    console.print(table)
