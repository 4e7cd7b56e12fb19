"""Many runs at once: bulk actions and families."""

from typing import Annotated

import typer
from rich.table import Table

from training_core.errors import TroupeError
from troupe_client.cli.arguments import AsJson, RunIds
from troupe_client.cli.output import console, print_json, print_rows
from troupe_client.cli.show import reported_keys
from troupe_client.server_api import find_server

app = typer.Typer()
FAMILY = {
    "eval_success": "success, greedy",
    "eval_sampled_success": "sampled",
    "eval_return": "return, greedy",
}
"""Columns of the table of families, if any family has them."""
Filter = Annotated[str, typer.Option("--filter", help="E.g. 'state = failed'; see `troupe runs --filter`.")]


@app.command()
def bulk(
    act: Annotated[
        str, typer.Argument(help="stop, pause, resume, archive, unarchive, tag, untag or priority.")
    ],
    runs: RunIds = None,
    value: Annotated[str, typer.Option(help="The tag, or the priority.")] = "",
    filter_text: Filter = "",
    as_json: AsJson = False,
) -> None:
    """Apply an action to many runs: the listed ones and those that match a filter (at most 500)."""
    server, ids = find_server(), list(runs or [])
    if filter_text:
        matches = server.call("/api/v1/runs/", filter=filter_text, limit=500)["results"]
        ids += [row["id"] for row in matches]
    if not ids:
        raise TroupeError("no run is listed or matches the filter")
    results = server.call("/api/v1/bulk/", {"runs": ids, "act": act, "value": value})["results"]
    print_rows(results, as_json, lambda row: f"{row['id']}  {'done' if row['ok'] else row['detail']}")
    if not all(row["ok"] for row in results):
        raise typer.Exit(1)


@app.command()
def families(filter_text: Filter = "", as_json: AsJson = False) -> None:
    """Show runs that differ only in their seed as families, with mean and standard deviation."""
    rows = find_server().call("/api/v1/families/", filter=filter_text)["results"]
    if as_json:
        return print_json(rows)
    means = reported_keys(rows, [f"{key}_mean" for key in FAMILY])
    keys = [mean.removesuffix("_mean") for mean in means]
    table = Table("family", "name", "runs", *(FAMILY[key] for key in keys))
    for row in rows:
        cells = [_spread(row, key) for key in keys]
        table.add_row(row["family"], row["name"], str(row["runs"]), *cells)
    console.print(table)


def _spread(row: dict[str, float | None], key: str) -> str:
    mean, deviation = row[f"{key}_mean"], row[f"{key}_sd"]
    if mean is None:
        return "–"
    spread = f" ± {deviation:.3f}" if deviation is not None else ""
    return f"{mean:.3f}{spread} (n {row[f'{key}_n']})"
