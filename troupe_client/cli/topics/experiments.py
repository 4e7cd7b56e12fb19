"""Sweeps: many runs of one experiment, launched and read together."""

import json
import sys
from typing import Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from troupe_client.cli.show import console, number, state, visible
from troupe_client.server_api import Server, find_server

app = typer.Typer()
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for scripts.")]
SweepId = Annotated[int, typer.Argument(help="Number of the sweep, as `troupe sweeps` shows it.", min=1)]


@app.command()
def sweep(  # noqa: PLR0913 - each is an option of the command
    preset: Annotated[str, typer.Argument(help="A preset's name.")],
    overrides: Annotated[list[str] | None, typer.Argument(help="Shared by all runs: key=value.")] = None,
    grid: Annotated[
        list[str] | None, typer.Option(help="field=value,value: every combination. May be repeated.")
    ] = None,
    listed: Annotated[
        list[str] | None, typer.Option("--list", help="field=value,value: the n-th values go together.")
    ] = None,
    seeds: Annotated[str, typer.Option(help="0,1,2 or 0..4: every point under each of them.")] = "",
    name: Annotated[str, typer.Option(help="Shown in tables.")] = "",
    project: Annotated[str, typer.Option(help="Slug of the project; default: your first.")] = "",
    tag: Annotated[list[str] | None, typer.Option(help="A tag; may be given several times.")] = None,
    plan: Annotated[bool, typer.Option("--plan", help="Only say what it would launch and cost.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Launch without asking.")] = False,
    as_json: AsJson = False,
) -> None:
    """Launch a run for each combination of some fields' values; says how many and what they cost first."""
    body = _body(preset, overrides or [], grid or [], listed or [], seeds)
    body |= {key: value for key, value in (("name", name), ("project", project), ("tags", tag)) if value}
    server = find_server()
    planned = server.call("/api/v1/sweeps/plan/", body)
    if plan and as_json:
        return _print_json(planned)
    if not as_json:
        _show_plan(planned)
    if plan:
        return
    if not (yes or as_json):
        typer.confirm("Launch?", abort=True)
    made = server.call("/api/v1/sweeps/", body)
    if as_json:
        return _print_json(made)
    console.print(
        f"sweep {made['id']}  {made['runs']} runs  {server.address(made['links']['page'])}", highlight=False
    )


def _body(preset: str, words: list[str], grid: list[str], listed: list[str], seeds: str) -> dict[str, Any]:
    from training_core.config.files import parse_overrides
    from training_core.config.sweeps import parse_axes
    from training_core.errors import ConfigError

    if grid and listed:
        raise ConfigError({"--list": "give either --grid or --list"})
    axes = parse_axes([*grid, *listed])
    if seeds:
        axes |= parse_axes([f"run.seed={seeds}"])
    return {
        "preset": preset,
        "overrides": parse_overrides(words),
        "axes": axes,
        "method": "list" if listed else "grid",
    }


def _show_plan(planned: dict[str, Any]) -> None:
    cost = planned["cost"]
    devices = f"{cost['cpus']:g} CPU cores" + (f" and {cost['gpus']:g} GPUs" if cost["gpus"] else "")
    played = f"at most {cost['answers']:,} answers and {cost['tokens']:,} tokens"
    if not cost["tokens"]:  # small networks
        played = f"{cost['answers']:,} environment steps"
    console.print(
        f"{cost['runs']} runs, {cost['iterations']:,} iterations, {played}; up to {devices} a run",
        highlight=False,
        soft_wrap=True,
    )


@app.command()
def sweeps(
    limit: Annotated[int, typer.Option(help="At most so many.", min=1, max=500)] = 20, as_json: AsJson = False
) -> None:
    """List sweeps, newest first."""
    found = find_server().call("/api/v1/sweeps/", limit=limit)["results"]
    if as_json:
        return _print_json(found)
    table = Table("sweep", "name", "preset", "runs", "ended", "varies", box=None, pad_edge=False)
    for row in found:
        counts = (str(row["runs"]), str(row["ended"]))
        varied = Text(visible(", ".join(row["axes"])))
        table.add_row(str(row["id"]), Text(visible(row["name"])), row["preset"], *counts, varied)
    console.print(table if found else "No sweeps yet: troupe sweep PRESET --seeds 0,1,2")


@app.command()
def sweep_show(
    sweep_id: SweepId,
    sort: Annotated[
        str, typer.Option(help="A varied field or a metric; -eval/success: the greatest first.")
    ] = "",
    as_json: AsJson = False,
) -> None:
    """Show a sweep's runs with their values and headline metrics."""
    found = find_server().call(f"/api/v1/sweeps/{sweep_id}/", sort=sort)
    if as_json:
        return _print_json(found)
    metric = found["metric"]
    table = Table("run", *found["axes"], "state", "iteration", metric, box=None, pad_edge=False)
    for row in found["results"]:
        values = [Text(visible(str(row["values"][path]))) for path in found["axes"]]
        progress = f"{row['iteration']}/{row['iterations']}"
        table.add_row(row["id"], *values, state(row), progress, number(row["headline"].get(metric)))
    console.print(Text(visible(found["name"]), style="bold"))
    console.print(table)


@app.command()
def sweep_stop(sweep_id: SweepId, as_json: AsJson = False) -> None:
    """Stop those of a sweep's runs that have not ended."""
    done = _stop(find_server(), sweep_id)
    if as_json:
        return _print_json(done)
    for item in done:
        console.print(
            f"{item['id']}  {'stopping' if item['ok'] else item['detail']}", highlight=False, markup=False
        )


def _stop(server: Server, sweep_id: int) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = server.call(f"/api/v1/sweeps/{sweep_id}/stop/", {})["results"]
    return found


def _print_json(value: Any) -> None:
    sys.stdout.write(json.dumps(value, indent=2, ensure_ascii=False) + "\n")
