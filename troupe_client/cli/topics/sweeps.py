"""Sweeps: many runs of one experiment."""

from typing import Annotated, Any

import typer
from rich.text import Text

from troupe_client.cli.arguments import AsJson, InProject, Preset, Tags
from troupe_client.cli.output import (
    plain_table,
    print_json,
    print_line,
    print_result,
    print_table,
    visible,
)
from troupe_client.cli.show import number, state
from troupe_client.server_api import find_server
from workers.provenance.collecting import launch_provenance

app = typer.Typer()
SweepId = Annotated[int, typer.Argument(help="Number of the sweep, as `troupe sweep list` shows it.", min=1)]


@app.command("launch")
def sweep(  # noqa: PLR0913 - each is an option of the command
    preset: Preset,
    overrides: Annotated[
        list[str] | None, typer.Argument(help="Fields to change in all runs: key=value.")
    ] = None,
    grid: Annotated[
        list[str] | None, typer.Option(help="field=value,value: every combination; may be repeated.")
    ] = None,
    listed: Annotated[
        list[str] | None,
        typer.Option("--list", help="field=value,value: the n-th values of all lists form the n-th run."),
    ] = None,
    seeds: Annotated[str, typer.Option(help="0,1,2 or 0..4: every combination with each seed.")] = "",
    separate_processes: Annotated[
        bool,
        typer.Option(
            "--separate-processes",
            help="Train every run in a process of its own; otherwise seeds of small networks share one if free devices are few.",
        ),
    ] = False,
    name: Annotated[str, typer.Option(help="Name of the sweep, shown in tables.")] = "",
    project: InProject = "",
    tag: Tags = None,
    plan: Annotated[
        bool, typer.Option("--plan", help="Only show the number of runs and their cost.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Launch without confirmation.")] = False,
    as_json: AsJson = False,
) -> None:
    """Launch a run for each combination of values, after showing their number and cost."""
    body = _body(preset, overrides or [], grid or [], listed or [], seeds)
    body |= {key: value for key, value in (("name", name), ("project", project), ("tags", tag)) if value}
    body |= {"separate_processes": True} if separate_processes else {}
    server = find_server()
    planned = server.call("/api/v1/sweeps/plan/", body)
    if plan and as_json:
        return print_json(planned)
    if not as_json:
        _show_plan(planned)
    if plan:
        return
    if not (yes or as_json):
        typer.confirm("Launch?", abort=True)
    created = server.call("/api/v1/sweeps/", body | {"provenance": launch_provenance("command line")})
    page = server.page(created["links"]["page"])
    print_result(created, as_json, f"sweep {created['id']}  {created['runs']} runs  {page}")


def _body(preset: str, words: list[str], grid: list[str], listed: list[str], seeds: str) -> dict[str, Any]:
    from training_core.config.files import parse_overrides
    from training_core.config.sweeps import SEED, parse_axes
    from training_core.errors import ConfigError

    if grid and listed:
        raise ConfigError({"--list": "give either --grid or --list"})
    axes = parse_axes([*grid, *listed])
    named = [word for word in words if word.removeprefix("--").startswith(f"{SEED}=")]
    seed_words = [*named, *([f"{SEED}={seeds}"] if seeds else [])]
    if len(seed_words) > 1 or seed_words and SEED in axes:
        raise ConfigError({SEED: "is given twice; name all seeds by --seeds 0..2"})
    return {
        "preset": preset,
        "overrides": parse_overrides([word for word in words if word not in named]),
        "axes": axes | parse_axes(seed_words),
        "method": "list" if listed else "grid",
    }


def _show_plan(planned: dict[str, Any]) -> None:
    cost = planned["cost"]
    devices = f"{cost['cpus']:g} CPU cores" + (f" and {cost['gpus']:g} GPUs" if cost["gpus"] else "")
    played = f"at most {cost['answers']:,} answers and {cost['tokens']:,} tokens"
    if not cost["tokens"]:  # small networks
        played = f"{cost['answers']:,} environment steps"
    owner = "process" if planned.get("seeds_share_processes") else "run"
    print_line(
        f"{cost['runs']} runs, {cost['iterations']:,} iterations, {played}; up to {devices} per {owner}"
    )
    if owner == "process":
        print_line(
            "Runs that differ in their seed only share a process if devices are few; --separate-processes: each by itself"
        )


@app.command("show")
def sweep_show(
    sweep_id: SweepId,
    sort: Annotated[
        str, typer.Option(help="A varied field or a metric; -eval/success: greatest first.")
    ] = "",
    as_json: AsJson = False,
) -> None:
    """Show the runs of a sweep with their values and headline metrics."""
    sweep = find_server().call(f"/api/v1/sweeps/{sweep_id}/", sort=sort)
    if as_json:
        return print_json(sweep)
    metric = sweep["metric"]
    table = plain_table("run", *sweep["axes"], "state", "iteration", metric)
    for row in sweep["results"]:
        values = [Text(visible(str(row["values"][path]))) for path in sweep["axes"]]
        progress = f"{row['iteration']}/{row['iterations']}"
        table.add_row(row["id"], *values, state(row), progress, number(row["headline"].get(metric)))
    print_line(sweep["name"], "bold")
    print_table(table, ["iteration", "state"])
