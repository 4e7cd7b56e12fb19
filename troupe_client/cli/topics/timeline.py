"""Who worked when, and what an update learnt from."""

import json
from typing import Annotated

import typer
from rich.table import Table

from troupe_client.cli.show import console, number, visible
from troupe_client.server_api import find_server, run_path

app = typer.Typer()


@app.command()
def timeline(
    run_id: Annotated[str, typer.Argument(help="Id of the run.")],
    first: Annotated[int | None, typer.Option(help="First iteration.", min=0)] = None,
    last: Annotated[int | None, typer.Option(help="Last iteration; default: the latest.", min=0)] = None,
    moments: Annotated[
        tuple[float, float] | None,
        typer.Option(help="Instead of iterations: from and to, in seconds since the epoch."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for scripts.")] = False,
) -> None:
    """Shares of time by worker and policy, how busy each device was, and who waited for whom."""
    window = {"from": moments[0], "to": moments[1]} if moments else {"first": first, "last": last}
    found = find_server().call(run_path(run_id, "timeline/"), **window)
    if as_json:
        return typer.echo(json.dumps(found, indent=2))
    if not found["lanes"]:
        return console.print("No spans of work yet.")
    whole = max(found["end"] - found["start"], 1e-9)
    table = Table(
        "worker",
        "policy",
        "work",
        "device in use",
        "model FLOPs",
        "waited",
        title=f"iterations {found['first']} to {found['last']}, {whole:.1f} s",
    )
    for lane in found["lanes"]:
        work = ", ".join(f"{phase} {100 * spent / whole:.0f}%" for phase, spent in lane["busy"].items())
        compute = ", ".join(f"{phase} {computed(each)}" for phase, each in lane["compute"].items())
        seen = [percent for _, percent in lane["utilisation"]]
        used = f"{sum(seen) / len(seen):.0f}% of {lane['device']}" if seen else ""
        table.add_row(
            lane["worker"],
            lane["policy"],
            work,
            visible(used),
            compute,
            f"{100 * lane['waited'] / whole:.0f}%",
        )
    console.print(table)
    for wait in found["waits"][:8]:
        awaited = wait["awaited"] or "nobody who reports"
        console.print(
            f"{wait['waiter']} waited {wait['seconds']:.1f} s ({100 * wait['seconds'] / whole:.0f}%) for {awaited}",
            markup=False,
            highlight=False,
        )


@app.command()
def batch(
    run_id: Annotated[str, typer.Argument(help="Id of the run.")],
    iteration: Annotated[int, typer.Argument(help="Iteration whose update learnt from it.", min=0)],
    sort: Annotated[
        str,
        typer.Option(help="start, end, time, length, reward, turns or staleness; -reward: highest first."),
    ] = "start",
    limit: Annotated[int, typer.Option(help="Episodes that are listed.", min=1)] = 50,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for scripts.")] = False,
) -> None:
    """The anatomy of one iteration's batch: where each episode's time went."""
    found = find_server().call(run_path(run_id, f"batches/{iteration}/"), sort=sort)
    if as_json:
        return typer.echo(json.dumps(found, indent=2))
    names = (
        "episode",
        "started",
        "queued",
        "generating",
        "environment",
        "to update",
        "length",
        "return",
        "turns",
    )
    title = (
        f"iteration {iteration}: {len(found['episodes'])} episodes in {found['end'] - found['start']:.1f} s"
    )
    table = Table(*names, "stale", "", title=title)
    for each in found["episodes"][:limit]:
        spent = each["seconds"]
        table.add_row(
            visible(each["name"]),
            f"{each['started'] - found['start']:.2f} s",
            *(f"{spent[name]:.2f} s" for name in ("queued", "generate", "environment", "update")),
            str(each["length"]),
            number(each["episode_return"]),
            str(each["turns"]),
            "–" if each["staleness"] is None else str(each["staleness"]),
            "failed" if each["failed"] else "cut" if each["truncated"] else "",
        )
    console.print(table)
    for phase, each in found["compute"].items():
        console.print(f"{phase}: {computed(each)}", markup=False, highlight=False)


def computed(compute: dict[str, float | None]) -> str:
    """Model FLOPs per second, and their share of the device's peak where that is known."""
    rate, mfu = compute["flops_per_second"] or 0.0, compute["mfu"]
    said = next(
        (f"{rate / size:.3g} {unit}FLOP/s" for size, unit in ((1e12, "T"), (1e9, "G")) if rate >= size),
        f"{rate / 1e6:.3g} MFLOP/s",
    )
    return f"{said}, peak not known" if mfu is None else f"{100 * mfu:.1f}% MFU, {said}"
