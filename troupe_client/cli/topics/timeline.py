"""Timeline of a run: what workers did, and the batch of each update."""

from typing import Annotated, Any

import typer

from troupe_client.cli.arguments import AsJson, RunId
from troupe_client.cli.output import plain_table, print_json, print_line, print_table, visible
from troupe_client.cli.show import number
from troupe_client.server_api import find_server, run_path

app = typer.Typer()


@app.command("show")
def timeline(
    run_id: RunId,
    first: Annotated[int | None, typer.Option(help="First iteration.", min=0)] = None,
    last: Annotated[int | None, typer.Option(help="Last iteration; default: the latest.", min=0)] = None,
    moments: Annotated[
        tuple[float, float] | None,
        typer.Option(help="Start and end in seconds since the epoch, instead of iterations."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show shares of time by worker and policy, device utilisation, and which worker waited for which."""
    window = {"from": moments[0], "to": moments[1]} if moments else {"first": first, "last": last}
    spans = find_server().call(run_path(run_id, "timeline/"), **window)
    if as_json:
        return print_json(spans)
    if not spans["lanes"]:
        return print_line("No spans of work yet.")
    seconds = max(spans["end"] - spans["start"], 1e-9)
    print_line(f"iterations {spans['first']} to {spans['last']}, {seconds:.1f} s", "bold")
    table = plain_table(
        *("worker", "policy", "work", "device in use", "model FLOPs", "waited"),
        wrap=("work", "device in use", "model FLOPs"),
    )
    for lane in spans["lanes"]:
        table.add_row(*_lane(lane, seconds))
    print_table(table, ["model FLOPs", "device in use"])
    for wait in spans["waits"][:8]:
        awaited = wait["awaited"] or "a worker that does not report"
        share = f"{100 * wait['seconds'] / seconds:.0f}%"
        print_line(f"{wait['waiter']} waited {wait['seconds']:.1f} s ({share}) for {awaited}")


def _lane(lane: dict[str, Any], seconds: float) -> tuple[str, ...]:
    """Cells of one worker, with its times as shares of `seconds`."""
    work = ", ".join(f"{phase} {100 * spent / seconds:.0f}%" for phase, spent in lane["busy"].items())
    compute = ", ".join(f"{phase} {computed(rates)}" for phase, rates in lane["compute"].items())
    percents = [percent for _, percent in lane["utilisation"]]
    used = f"{sum(percents) / len(percents):.0f}% of {lane['device']}" if percents else ""
    waited = f"{100 * lane['waited'] / seconds:.0f}%"
    return lane["worker"], lane["policy"], work, visible(used), compute, waited


@app.command("batch")
def batch(
    run_id: RunId,
    iteration: Annotated[int, typer.Argument(help="Iteration whose update used the batch.", min=0)],
    sort: Annotated[
        str,
        typer.Option(help="start, end, time, length, reward, turns or staleness; -reward: highest first."),
    ] = "start",
    limit: Annotated[int, typer.Option(help="Maximum number of episodes.", min=1)] = 50,
    as_json: AsJson = False,
) -> None:
    """Show the batch of one iteration: the time of each episode by activity."""
    batch = find_server().call(run_path(run_id, f"batches/{iteration}/"), sort=sort)
    if as_json:
        return print_json(batch)
    episodes, seconds = batch["episodes"], batch["end"] - batch["start"]
    print_line(f"iteration {iteration}: {len(episodes)} episodes in {seconds:.1f} s", "bold")
    table = plain_table(
        *(
            "episode",
            "started",
            "queued",
            "generating",
            "environment",
            "to update",
            "length",
            "return",
            "turns",
        ),
        *("stale", "ended"),
    )
    for episode in episodes[:limit]:
        spent = episode["seconds"]
        table.add_row(
            visible(episode["name"]),
            f"{episode['started'] - batch['start']:.2f} s",
            *(f"{spent[name]:.2f} s" for name in ("queued", "generate", "environment", "update")),
            str(episode["length"]),
            number(episode["episode_return"]),
            str(episode["turns"]),
            "–" if episode["staleness"] is None else str(episode["staleness"]),
            "failed" if episode["failed"] else "cut" if episode["truncated"] else "",
        )
    print_table(table, ["started", "stale", "queued", "to update", "turns", "length"])
    for phase, rates in batch["compute"].items():
        print_line(f"{phase}: {computed(rates)}")


def computed(compute: dict[str, float | None]) -> str:
    """Model FLOPs per second, and their share of the device's peak if the peak is known."""
    rate, mfu = compute["flops_per_second"] or 0.0, compute["mfu"]
    text = next(
        (f"{rate / size:.3g} {unit}FLOP/s" for size, unit in ((1e12, "T"), (1e9, "G")) if rate >= size),
        f"{rate / 1e6:.3g} MFLOP/s",
    )
    return f"{text}, peak not known" if mfu is None else f"{100 * mfu:.1f}% MFU, {text}"
