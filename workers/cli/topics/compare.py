"""Runs side by side."""

import json
from typing import Annotated, Any

import typer
from rich.table import Table

from workers.cli.api import find_server
from workers.cli.show import console

app = typer.Typer()


@app.command()
def compare(
    runs: Annotated[list[str] | None, typer.Argument(help="Ids of runs.")] = None,
    filter_text: Annotated[
        str, typer.Option("--filter", help="And those that fit; see `troupe runs --filter`.")
    ] = "",
    key: Annotated[str, typer.Option(help="The metric whose last values are compared.")] = "eval/success",
    by: Annotated[
        str, typer.Option(help="family (all but the seed), run, or a dotted config field.")
    ] = "family",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for scripts.")] = False,
) -> None:
    """Compare groups of runs: interquartile mean with its interval, probability of improvement."""
    found = find_server().call(
        "/api/v1/compare/", runs=",".join(runs or []), filter=filter_text, key=key, by=by
    )
    if as_json:
        return typer.echo(json.dumps(found, indent=2))
    table = Table("group", "n", "mean", "sd", "IQM", "95% interval", title=key)
    for row in found["groups"]:
        deviation = "–" if row["sd"] is None else f"{row['sd']:.3f}"
        cells = [f"{row['mean']:.3f}", deviation, f"{row['iqm']:.3f}", _interval(row)]
        table.add_row(
            f"{row['group']} {row['name']}" if by == "family" else row["group"], str(row["n"]), *cells
        )
    console.print(table)
    for pair in found["pairs"]:
        console.print(
            f"P({pair['better']} > {pair['than']}) = {pair['probability']:.2f}  {_interval(pair)}",
            highlight=False,
            markup=False,
        )
    if found["without"]:
        console.print(f"without {key}: {', '.join(found['without'])}", highlight=False, markup=False)


def _interval(row: dict[str, Any]) -> str:
    return "–" if row["interval"] is None else f"[{row['interval'][0]:.3f}, {row['interval'][1]:.3f}]"
