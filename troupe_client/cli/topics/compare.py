"""Runs side by side."""

import csv
import json
import sys
from typing import Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from troupe_client.cli.show import console, turns_line, visible
from troupe_client.server_api import find_server
from workers.http.csv_cells import cell_text

app = typer.Typer()
Runs = Annotated[list[str] | None, typer.Argument(help="Ids of runs.")]
Filter = Annotated[str, typer.Option("--filter", help="And those that fit; see `troupe runs --filter`.")]
Key = Annotated[str, typer.Option(help="The metric; without it eval/success, of small networks eval/return.")]
By = Annotated[str, typer.Option(help="family (all but the seed), run, or a dotted config field.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for scripts.")]


@app.command()
def compare(
    runs: Runs = None,
    filter_text: Filter = "",
    key: Key = "",
    by: By = "family",
    at: Annotated[
        str, typer.Option(help="last, common (at the last step that all reached), or a step.")
    ] = "last",
    as_json: AsJson = False,
) -> None:
    """Compare groups of runs: interquartile mean with its interval, probability of improvement."""
    found = _read("", runs, filter_text, key=key, by=by, at=at)
    if as_json:
        return _print_json(found)
    table = Table("group", "n", "mean", "sd", "IQM", "95% interval", "at step", title=found["key"])
    for row in found["groups"]:
        deviation = "–" if row["sd"] is None else f"{row['sd']:.3f}"
        steps = " … ".join(map(str, dict.fromkeys([row["first_step"], row["last_step"]])))
        cells = [f"{row['mean']:.3f}", deviation, f"{row['iqm']:.3f}", _interval(row), steps]
        name = f"{row['group']} {row['name']}" if by == "family" else row["name"]
        table.add_row(Text(visible(name)), str(row["n"]), *cells)
    console.print(table)
    for pair in found["pairs"]:
        _line(f"P({pair['better']} > {pair['than']}) = {pair['probability']:.2f}  {_interval(pair)}")
    if found["without"]:
        _line(f"without {found['key']}: {', '.join(found['without'])}")


@app.command("compare-curves")
def compare_curves(
    runs: Runs = None,
    filter_text: Filter = "",
    key: Key = "",
    by: By = "family",
    x: Annotated[str, typer.Option(help="step, time (seconds), tokens, episodes or env_steps.")] = "step",
    band: Annotated[str, typer.Option(help="sd, ci (95% bootstrap of the mean), minmax or none.")] = "sd",
    smooth: Annotated[float, typer.Option(help="Weight of what came before, 0 to 0.99.")] = 0.0,
    as_json: AsJson = False,
) -> None:
    """Print mean, band and number of runs of each group at every point of an axis, as CSV."""
    found = _read("curves/", runs, filter_text, key=key, by=by, x=x, band=band, smooth=smooth)
    if as_json:
        return _print_json(found)
    table = csv.writer(sys.stdout)
    table.writerow(["group", x, "mean", "low", "high", "n"])
    for group in found["groups"]:
        missing = [None] * len(found["axis"])
        columns = (group["mean"], group["low"] or missing, group["high"] or missing, group["counts"])
        for place, *cells in zip(found["axis"], *columns, strict=True):
            table.writerow([cell_text(visible(group["label"])), place, *cells])


@app.command("compare-config")
def compare_config(
    runs: Runs = None,
    filter_text: Filter = "",
    by: By = "family",
    whole: Annotated[bool, typer.Option("--all", help="Fields that are the same everywhere too.")] = False,
    as_json: AsJson = False,
) -> None:
    """Show the fields of the config in which runs differ."""
    found = _read("config/", runs, filter_text, by=by, all="1" if whole else "")
    if as_json:
        return _print_json(found)
    table = Table("field", box=None, pad_edge=False)
    for group in found["groups"]:
        table.add_column(Text(visible(group["label"])))
    for field in found["fields"]:
        table.add_row(field["path"], *(Text(visible(_cell(cell))) for cell in field["cells"]))
    console.print(table)
    _line(f"{found['same']} fields are the same everywhere")


@app.command("compare-table")
def compare_table(
    runs: Runs = None,
    filter_text: Filter = "",
    key: Key = "",
    axes: Annotated[str, typer.Option(help="Comma-separated config fields and metrics.")] = "",
    brush: Annotated[str, typer.Option(help='Keep runs: {"name": [least, greatest]} as JSON.')] = "",
    as_json: AsJson = False,
) -> None:
    """Print runs by the fields in which they differ and by metrics, as CSV: those that the brushes keep."""
    found = _read("table/", runs, filter_text, key=key, by="run", axes=axes, brush=brush)
    if as_json:
        return _print_json(found)
    table = csv.writer(sys.stdout)
    table.writerow(["run", "name", *(cell_text(visible(axis["name"])) for axis in found["axes"])])
    for row in found["rows"]:
        if row["kept"]:
            cells = [
                value if isinstance(value, int | float | None) else _text(value) for value in row["values"]
            ]
            table.writerow([row["run"], cell_text(visible(row["name"])), *cells])


@app.command("compare-probes")
def compare_probes(
    runs: Runs = None,
    filter_text: Filter = "",
    kind: Annotated[str, typer.Option(help="eval (greedy) or eval_sampled.")] = "eval",
    task: Annotated[str, typer.Option(help="Only this task.")] = "",
    at: Annotated[
        str, typer.Option(help="last, common (the last evaluation of all), or an iteration.")
    ] = "last",
    page: Annotated[int, typer.Option(help="From 0; a page has four tasks.")] = 0,
    as_json: AsJson = False,
) -> None:
    """Show how each run played the same tasks."""
    found = _read("probes/", runs, filter_text, kind=kind, task=task, at=at, page=page)
    if as_json:
        return _print_json(found)
    for each in found["tasks"]:
        _line(f"{each['task']}  {each['title']}")
        for play in filter(None, each["plays"]):
            said = turns_line(play["turns"])
            other = "" if play["same_prompt"] else "  (another prompt)"
            _line(f"  {play['run']}  iteration {play['iteration']}  {play['outcome']}{other}  {said}")
    if not found["tasks"]:
        _line("No evaluation has been kept of these runs.")


def _text(value: Any) -> object:
    """A category of an axis as a cell."""
    return cell_text(visible(value if isinstance(value, str) else json.dumps(value)))


def _cell(cell: dict[str, Any]) -> str:
    said = [value if isinstance(value, str) else json.dumps(value) for value in cell["values"]]
    return ", ".join([*said, *(["absent"] if cell["absent"] else [])])


def _read(part: str, runs: list[str] | None, filter_text: str, **asked: Any) -> dict[str, Any]:
    found: dict[str, Any] = find_server().call(
        f"/api/v1/compare/{part}", runs=",".join(runs or []), filter=filter_text, **asked
    )
    return found


def _interval(row: dict[str, Any]) -> str:
    return "–" if row["interval"] is None else f"[{row['interval'][0]:.3f}, {row['interval'][1]:.3f}]"


def _line(text: str) -> None:
    console.print(Text(visible(text)), soft_wrap=True)


def _print_json(value: Any) -> None:
    sys.stdout.write(json.dumps(value, indent=2, ensure_ascii=False) + "\n")
