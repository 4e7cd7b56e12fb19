"""Compare runs: groups, curves, configs, tables and probe tasks."""

import csv
import json
import sys
from typing import Annotated, Any

import typer
from rich.text import Text

from troupe_client.cli.arguments import AsJson, EvaluationKind, RunIds
from troupe_client.cli.output import plain_table, print_json, print_line, print_table, visible
from troupe_client.cli.sections import RUNS
from troupe_client.cli.show import turns_line
from troupe_client.server_api import find_server
from workers.http import cell_text

app = typer.Typer()
top = typer.Typer()
Filter = Annotated[str, typer.Option("--filter", help="Runs to add by a filter; see `troupe runs --filter`.")]
Key = Annotated[
    str, typer.Option(help="The metric; default: eval/success, or eval/return for small networks.")
]
By = Annotated[str, typer.Option(help="family (all fields but the seed), run, or a dotted config field.")]


@top.command("compare", rich_help_panel=RUNS)
def compare(
    runs: RunIds = None,
    filter_text: Filter = "",
    key: Key = "",
    by: By = "family",
    at: Annotated[
        str, typer.Option(help="last, common (the last step that all runs have reached), or a step.")
    ] = "last",
    as_json: AsJson = False,
) -> None:
    """Compare groups of runs: mean, confidence interval, probability of improvement."""
    comparison = _read("", runs, filter_text, key=key, by=by, at=at)
    if as_json:
        return print_json(comparison)
    figures = ("n", "mean", "sd", "IQM", "95% interval", "at step")
    table = plain_table("group", *figures, right=figures, wrap=("group",))
    for row in comparison["groups"]:
        deviation = "–" if row["sd"] is None else f"{row['sd']:.3f}"
        steps = " … ".join(map(str, dict.fromkeys([row["first_step"], row["last_step"]])))
        cells = [f"{row['mean']:.3f}", deviation, f"{row['iqm']:.3f}", _interval(row), steps]
        table.add_row(Text(visible(row["name"])), str(row["n"]), *cells)
    print_line(comparison.get("label", comparison["key"]), "bold")
    print_table(table, ["at step", "sd"])
    names = {row["group"]: row["name"] for row in comparison["groups"]}
    for pair in comparison["pairs"]:
        print_line(
            f"P({names[pair['better']]} > {names[pair['than']]}) = {pair['probability']:.2f}  {_interval(pair)}"
        )
    if comparison["without"]:
        print_line(f"without {comparison['key']}: {', '.join(comparison['without'])}")


@app.command("curves")
def compare_curves(
    runs: RunIds = None,
    filter_text: Filter = "",
    key: Key = "",
    by: By = "family",
    x: Annotated[str, typer.Option(help="step, time (seconds), tokens, episodes or env_steps.")] = "step",
    band: Annotated[str, typer.Option(help="sd, ci (95% bootstrap of the mean), minmax or none.")] = "sd",
    smooth: Annotated[float, typer.Option(help="Smoothing: weight of earlier values, 0 to 0.99.")] = 0.0,
    as_json: AsJson = False,
) -> None:
    """Print mean, band and number of runs of each group at every point of an axis, as CSV."""
    curves = _read("curves/", runs, filter_text, key=key, by=by, x=x, band=band, smooth=smooth)
    if as_json:
        return print_json(curves)
    writer = csv.writer(sys.stdout)
    writer.writerow(["group", x, "mean", "low", "high", "n"])
    for group in curves["groups"]:
        missing = [None] * len(curves["axis"])
        columns = (group["mean"], group["low"] or missing, group["high"] or missing, group["counts"])
        for position, *cells in zip(curves["axis"], *columns, strict=True):
            writer.writerow([cell_text(visible(group["label"])), position, *cells])


@app.command("config")
def compare_config(
    runs: RunIds = None,
    filter_text: Filter = "",
    by: By = "family",
    whole: Annotated[
        bool, typer.Option("--all", help="Include fields that are equal in all groups.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Show the config fields in which runs differ."""
    comparison = _read("config/", runs, filter_text, by=by, all="1" if whole else "")
    if as_json:
        return print_json(comparison)
    table = plain_table("field", wrap=("field",))
    for group in comparison["groups"]:
        table.add_column(visible(group["label"]), overflow="fold")
    for field in comparison["fields"]:
        table.add_row(field["path"], *(Text(visible(_values(cell))) for cell in field["cells"]))
    print_table(table)
    print_line(f"{comparison['same']} fields are equal in all groups")


@app.command("table")
def compare_table(
    runs: RunIds = None,
    filter_text: Filter = "",
    key: Key = "",
    axes: Annotated[str, typer.Option(help="Comma-separated config fields and metrics.")] = "",
    brush: Annotated[str, typer.Option(help='Keep runs: {"name": [least, greatest]} as JSON.')] = "",
    as_json: AsJson = False,
) -> None:
    """Print runs as CSV with the fields in which they differ and their metrics; --brush selects runs."""
    selection = _read("table/", runs, filter_text, key=key, by="run", axes=axes, brush=brush)
    if as_json:
        return print_json(selection)
    writer = csv.writer(sys.stdout)
    writer.writerow(["run", "name", *(cell_text(visible(axis["name"])) for axis in selection["axes"])])
    for row in selection["rows"]:
        if row["kept"]:
            cells = [
                value if isinstance(value, int | float | None) else _category(value)
                for value in row["values"]
            ]
            writer.writerow([row["run"], cell_text(visible(row["name"])), *cells])


@app.command("probes")
def compare_probes(
    runs: RunIds = None,
    filter_text: Filter = "",
    kind: EvaluationKind = "eval",
    task: Annotated[str, typer.Option(help="Only this task.")] = "",
    at: Annotated[
        str, typer.Option(help="last, common (the last evaluation that all runs have), or an iteration.")
    ] = "last",
    page: Annotated[int, typer.Option(help="Page number, from 0; a page has four tasks.")] = 0,
    as_json: AsJson = False,
) -> None:
    """Show how each run played the same tasks."""
    probes = _read("probes/", runs, filter_text, kind=kind, task=task, at=at, page=page)
    if as_json:
        return print_json(probes)
    for strip in probes["tasks"]:
        print_line(f"{strip['task']}  {strip['title']}")
        for play in filter(None, strip["plays"]):
            prompt = "" if play["same_prompt"] else "  (another prompt)"
            turns = turns_line(play["turns"])
            print_line(f"  {play['run']}  iteration {play['iteration']}  {play['outcome']}{prompt}  {turns}")
    if not probes["tasks"]:
        print_line("No evaluation of these runs is stored.")


def _category(value: Any) -> object:
    """A value that is not a number as a CSV cell."""
    return cell_text(visible(value if isinstance(value, str) else json.dumps(value)))


def _values(cell: dict[str, Any]) -> str:
    values = [value if isinstance(value, str) else json.dumps(value) for value in cell["values"]]
    return ", ".join([*values, *(["absent"] if cell["absent"] else [])])


def _read(part: str, runs: list[str] | None, filter_text: str, **query: Any) -> dict[str, Any]:
    response: dict[str, Any] = find_server().call(
        f"/api/v1/compare/{part}", runs=",".join(runs or []), filter=filter_text, **query
    )
    return response


def _interval(row: dict[str, Any]) -> str:
    return "–" if row["interval"] is None else f"[{row['interval'][0]:.3f}, {row['interval'][1]:.3f}]"
