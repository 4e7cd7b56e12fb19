"""What is done to runs beside stopping one: acts on many, families."""

import json
from typing import Annotated

import typer
from rich.table import Table

from training_core.errors import TroupeError
from troupe_client.cli.show import console, known
from troupe_client.server_api import find_server

app = typer.Typer()
FAMILY = {
    "eval_success": "success, greedy",
    "eval_sampled_success": "sampled",
    "eval_return": "return, greedy",
}
"""What the table of families shows, where some family has it."""
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for scripts.")]
Filter = Annotated[str, typer.Option("--filter", help="E.g. 'state = failed'; see `troupe runs --filter`.")]


@app.command()
def bulk(
    act: Annotated[
        str, typer.Argument(help="stop, pause, resume, archive, unarchive, tag, untag or priority.")
    ],
    runs: Annotated[list[str] | None, typer.Argument(help="Ids of runs.")] = None,
    value: Annotated[str, typer.Option(help="The tag, or the priority.")] = "",
    filter_text: Filter = "",
    as_json: AsJson = False,
) -> None:
    """Do one thing to many runs: those named, or those that fit a filter (at most 500)."""
    server, chosen = find_server(), list(runs or [])
    if filter_text:
        found = server.call("/api/v1/runs/", filter=filter_text, limit=500)["results"]
        chosen += [row["id"] for row in found]
    if not chosen:
        raise TroupeError("no run is named, or fits the filter")
    done = server.call("/api/v1/bulk/", {"runs": chosen, "act": act, "value": value})["results"]
    if as_json:
        typer.echo(json.dumps(done, indent=2))
    for item in done if not as_json else []:
        console.print(
            f"{item['id']}  {'done' if item['ok'] else item['detail']}", highlight=False, markup=False
        )
    if not all(item["ok"] for item in done):
        raise typer.Exit(1)


@app.command()
def families(filter_text: Filter = "", as_json: AsJson = False) -> None:
    """Runs grouped by all but their seed, with mean and standard deviation."""
    rows = find_server().call("/api/v1/families/", filter=filter_text)["results"]
    if as_json:
        return typer.echo(json.dumps(rows, indent=2))
    means = known(rows, [f"{key}_mean" for key in FAMILY])
    shown = [mean.removesuffix("_mean") for mean in means]
    table = Table("family", "name", "runs", *(FAMILY[key] for key in shown))
    for row in rows:
        cells = [_spread(row, key) for key in shown]
        table.add_row(row["family"], row["name"], str(row["runs"]), *cells)
    console.print(table)


def _spread(row: dict[str, float | None], key: str) -> str:
    mean, deviation = row[f"{key}_mean"], row[f"{key}_sd"]
    if mean is None:
        return "–"
    return (
        f"{mean:.3f}" + (f" ± {deviation:.3f}" if deviation is not None else "") + f" (n {row[f'{key}_n']})"
    )
