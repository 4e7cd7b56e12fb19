"""Curves of a run, events and notes on them, and what the run costs."""

from typing import Annotated, Any

import typer
from rich.text import Text

from troupe_client.cli.arguments import AsJson, OutputFile, RunId
from troupe_client.cli.fetching import write_lines
from troupe_client.cli.output import (
    plain_table,
    print_json,
    print_line,
    print_rows,
    print_table,
    visible,
)
from troupe_client.server_api import find_server, run_path

app = typer.Typer()
costs = typer.Typer()


@app.command("list")
def curves(
    run_id: RunId,
    search: Annotated[str, typer.Argument(help="Only metrics with these words in their name.")] = "",
    as_json: AsJson = False,
) -> None:
    """List a run's metrics: number of points, last step, last value."""
    series = find_server().call(run_path(run_id, "series/"), search=search)["keys"]
    if as_json:
        return print_json(series)
    table = plain_table(
        "metric", "points", "step", "value", wrap=("metric",), right=("points", "step", "value")
    )
    for row in series:
        last = row["last_value"]
        last = last if isinstance(last, str) else f"{last:.6g}"
        table.add_row(Text(visible(row["key"])), str(row["count"]), str(row["last_step"]), last)
    print_table(table) if series else print_line("No such metric.")


@app.command("export")
def export_curves(
    run_id: RunId,
    metrics: Annotated[list[str] | None, typer.Argument(help="Names of metrics; default: all.")] = None,
    output: OutputFile = None,
) -> None:
    """Write metrics as CSV, one row per point: metric, attempt, step, time, value."""
    lines = find_server().lines(run_path(run_id, "series/export/"), keys=",".join(metrics or []))
    count = write_lines(lines, output)
    if output is not None:
        print_line(f"{count - 1} points in {output}")  # the first line is the header


@app.command("events")
def events(
    run_id: RunId,
    kind: Annotated[
        str, typer.Option(help="Only this kind: checkpoint, attempt, edit, finding or note.")
    ] = "",
    as_json: AsJson = False,
) -> None:
    """List the events on a run's curves: checkpoints, attempts, edits of the config, findings, notes."""
    marks = find_server().call(run_path(run_id, "marks/"))["results"]
    selected = [mark for mark in marks if kind in ("", mark["kind"])]
    print_rows(selected, as_json, _event, "No events yet.")


def _event(mark: dict[str, Any]) -> str:
    step = "run" if mark["step"] is None else f"step {mark['step']}"
    return f"{step}  {mark['kind']}  {mark['title']}  {mark['detail']}".rstrip()


@costs.command("cost")
def cost(run_id: RunId, as_json: AsJson = False) -> None:
    """Show time, device hours and tokens of a run: spent, and expected at its end."""
    spent = find_server().call(run_path(run_id, "cost/"))
    if as_json:
        return print_json(spent)
    print_line(
        f"ran {spent['seconds']:.0f} s in {len(spent['attempts'])} attempts, waited {spent['waited']:.0f} s"
    )
    for name, unit in (("gpu", "GPU hours"), ("cpu", "CPU core hours")):
        if spent[f"{name}s"]:
            expected = spent[f"expected_{name}_hours"]
            at_end = "" if expected is None else f", {expected:.3f} at its end"
            print_line(f"{spent[f'{name}_hours']:.3f} {unit} ({spent[f'{name}s']:g} held){at_end}")
    repeated = f", {spent['tokens_again']} of them played again" if spent["tokens_again"] else ""
    print_line(f"{spent['tokens']} training tokens{repeated}")
    if spent["eta_seconds"] is not None:
        print_line(f"{spent['eta_seconds']:.0f} s left")
