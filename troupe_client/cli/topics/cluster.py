"""`troupe cluster show`: nodes, and what runs hold and wait for."""

from typing import Any

import typer
from rich.table import Table
from rich.text import Text

from troupe_client.cli.arguments import AsJson
from troupe_client.cli.output import console, plain_table, print_json, print_line, print_table, visible
from troupe_client.cli.show import TONES, duration
from troupe_client.server_api import find_server

app = typer.Typer()


@app.command("show")
def cluster(as_json: AsJson = False) -> None:
    """Show nodes, the runs that hold devices, and what each waiting run lacks."""
    status = find_server().call("/api/v1/cluster/")
    if as_json:
        return print_json(status)
    if not status["reachable"]:
        console.print("The cluster does not answer.", style="yellow")
    for node in status["nodes"]:
        print_line(
            f"{node['name']}  {node['free_cpus']:g} of {node['cpus']:g} CPU cores free, "
            f"{node['free_gpus']:g} of {node['gpus']:g} GPUs free"
        )
    print_table(_table(status["runs"]), ["priority", "owner", "name"]) if status["runs"] else print_line(
        "No run is active or waiting."
    )
    worker, ingest = status["services"]["worker"], status["services"]["ingest"]
    print_line(
        f"worker {'works' if worker['alive'] else 'has not been seen'}, backlog {worker['backlog']}; "
        f"{ingest['producers']} writing, longest silence {duration(ingest['lag_seconds'])}"
    )


def _table(rows: list[dict[str, Any]]) -> Table:
    headings = ("run", "place", "name", "state", "owner", "priority", "CPU", "GPU", "limited by")
    table = plain_table(*headings, wrap=("name", "limited by"))
    for row in rows:
        limits = "; ".join(_limit(limit) for limit in row["limits"])
        table.add_row(
            row["run"] or "–",
            str(row["place"] or ""),
            Text(visible(row["name"] or "of another project")),
            Text(row["state"], style=TONES.get(row["state"], "")),
            Text(visible(row["owner"] or "–")),
            str(row["priority"]),
            "–" if row["cpus"] is None else f"{row['cpus']:g}",
            "–" if row["gpus"] is None else f"{row['gpus']:g}",
            Text(visible(limits or row["reason"])),
        )
    return table


def _limit(limit: dict[str, Any]) -> str:
    if limit["never"]:
        return f"{limit['resource']}: needs {limit['wants']:g}, the cluster has {limit['total']:g}"
    return f"{limit['resource']}: needs {limit['wants']:g}, lacks {limit['lacks']:g}"
