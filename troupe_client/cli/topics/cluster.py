"""The cluster: what it has, who holds it, who waits for what."""

import json
from typing import Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from troupe_client.cli.show import TONES, console, duration, visible
from troupe_client.server_api import find_server

app = typer.Typer()


@app.command()
def cluster(as_json: Annotated[bool, typer.Option("--json", help="Print JSON for scripts.")] = False) -> None:
    """Show nodes, who holds devices, and what each waiting run lacks."""
    found = find_server().call("/api/v1/cluster/")
    if as_json:
        return typer.echo(json.dumps(found, indent=2, ensure_ascii=False))
    if not found["reachable"]:
        console.print("The cluster does not answer.", style="yellow")
    for node in found["nodes"]:
        _line(
            f"{node['name']}  {node['free_cpus']:g} of {node['cpus']:g} CPU cores free, "
            f"{node['free_gpus']:g} of {node['gpus']:g} GPUs free"
        )
    console.print(_table(found["runs"]) if found["runs"] else "Nothing runs or waits.")
    worker, ingest = found["services"]["worker"], found["services"]["ingest"]
    _line(
        f"worker {'works' if worker['alive'] else 'has not been seen'}, backlog {worker['backlog']}; "
        f"{ingest['producers']} writing, longest silence {duration(ingest['lag_seconds'])}"
    )


def _table(rows: list[dict[str, Any]]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim")
    for heading in ("place", "run", "name", "state", "owner", "priority", "CPU", "GPU", "limited by"):
        table.add_column(heading)
    for row in rows:
        table.add_row(
            str(row["place"] or ""),
            row["run"] or "–",
            Text(visible(row["name"] or "of another project")),
            Text(row["state"], style=TONES.get(row["state"], "")),
            Text(visible(row["owner"] or "–")),
            str(row["priority"]),
            "–" if row["cpus"] is None else f"{row['cpus']:g}",
            "–" if row["gpus"] is None else f"{row['gpus']:g}",
            Text(visible("; ".join(_limit(each) for each in row["limits"]) or row["reason"])),
        )
    return table


def _limit(limit: dict[str, Any]) -> str:
    if limit["never"]:
        return f"{limit['resource']}: wants {limit['wants']:g}, there are {limit['total']:g} in all"
    return f"{limit['resource']}: wants {limit['wants']:g}, lacks {limit['lacks']:g}"


def _line(text: str) -> None:
    console.print(Text(visible(text)), soft_wrap=True)
