"""How runs and values look in a terminal."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from troupe_client.cli.output import plain_table, visible
from workers.telemetry.faults import log_text

TONES = {
    "running": "green", "starting": "cyan", "queued": "yellow", "stopping": "yellow", "paused": "blue",
    "finished": "bold green", "stopped": "dim", "failed": "bold red",
}  # fmt: skip
OUTCOMES = ("eval/success", "eval/return", "train/return")
"""Metrics in tables of runs and checkpoints, if any row has them."""
ENDED = ("finished", "stopped", "failed", "paused")
MOST_TURNS = 12
SPARKS = "▁▂▃▄▅▆▇█"


def duration(seconds: float | None) -> str:
    """1 h 02 min, 3 min 05 s, 12 s; a dash for None and infinity."""
    if seconds is None or not math.isfinite(seconds):
        return "–"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes:02d} min"
    return f"{minutes} min {rest:02d} s" if minutes else f"{rest} s"


def number(value: Any) -> str:
    """Three decimals; words (NaN) unchanged; a dash for None."""
    return f"{value:.3f}" if isinstance(value, int | float) else str(value if value is not None else "–")


def size(count: float) -> str:
    """Bytes in powers of 1,000: 512 B, 1.4 MB."""
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:,.1f} TB"


def spark(values: list[Any]) -> str:
    """A line of blocks, one per value; a blank for each value that is not a finite number."""
    finite = [value for value in values if isinstance(value, int | float) and math.isfinite(value)]
    if not finite:
        return ""
    low, span = min(finite), (max(finite) - min(finite)) or 1.0
    return "".join(
        SPARKS[round((value - low) / span * (len(SPARKS) - 1))]
        if isinstance(value, int | float) and math.isfinite(value)
        else " "
        for value in values
    )


def turns_line(turns: Sequence[Mapping[str, Any]]) -> str:
    """The first MOST_TURNS turns on one line: role and text of each."""
    texts = [f"{turn['role']}: {'; '.join(turn['text'].splitlines())}" for turn in turns[:MOST_TURNS]]
    return " | ".join(texts) + (f" | and {len(turns) - MOST_TURNS} more" if len(turns) > MOST_TURNS else "")


def reported_keys(rows: Sequence[Mapping[str, Any]], keys: Sequence[str]) -> list[str]:
    """Return those of `keys` that some row has a value for; the first key if there is none."""
    return [key for key in keys if any(row.get(key) is not None for row in rows)] or list(keys[:1])


def log_line(line: dict[str, Any]) -> Text:
    """A log line as `troupe run` prints it."""
    return Text(visible(log_text(line["level"], line["source"], line["message"])))


def state(run: dict[str, Any]) -> Text:
    """The state in its colour."""
    return Text(run["state"], style=TONES.get(run["state"], ""))


def stated(run: dict[str, Any]) -> str:
    """The reason of the run's state, and what to do about it."""
    return f"{run['reason']} {run.get('remedy', '')}".strip()


def runs_table(runs: list[dict[str, Any]]) -> tuple[Table, list[str]]:
    """One row per run, with the requested columns or the first metric that a run has; columns that may be left out, in order."""
    requested = list(runs[0].get("columns", {}))
    metrics = reported_keys([run["headline"] for run in runs], OUTCOMES)[:1]
    columns = requested or metrics
    numeric = ("iteration", *columns, "left")
    table = plain_table("id", "name", "state", *numeric, "reason", right=numeric, wrap=("name", "reason"))
    for run in runs:
        table.add_row(
            run["id"],
            Text(visible(run["name"])),
            state(run),
            progress(run),
            *_cells(run, requested, metrics),
            duration(run["eta_seconds"]),
            Text(visible(stated(run)), style="dim"),
        )
    return table, ["left", *reversed(columns), "iteration", "reason"]


def progress(run: Mapping[str, Any]) -> str:
    """ "12/40", or "12" if the total is not known."""
    return f"{run['iteration']}/{run['iterations']}" if run["iterations"] else str(run["iteration"])


def _cells(run: dict[str, Any], requested: list[str], metrics: list[str]) -> list[Text]:
    if requested:
        return [_cell(run["columns"][column], run["changes"].get(column)) for column in requested]
    return [Text(number(run["headline"].get(key))) for key in metrics]


def _cell(value: Any, change: Any = None) -> Text:
    """A metric with its change, in the column headline with its name, or the value of a config field."""
    if isinstance(value, dict) and value.keys() == {"metric", "value"}:
        return Text(f"{visible(value['metric'])} ").append_text(_cell(value["value"], change))
    if isinstance(value, float):
        return Text(number(value) + (f" ({change:+.3f})" if change is not None else ""))
    return Text("–" if value is None else visible(str(value)))


def labelled(run: Mapping[str, Any], key: str) -> str:
    """The label of a metric of a run: `eval/return (shaped)` if its environment has shaped rewards."""
    shaped = run.get("return_label", "").removeprefix("return")
    return key + shaped if key.endswith("/return") else key


def run_panel(run: dict[str, Any], series: dict[str, Any], lines: list[dict[str, Any]]) -> RenderableType:
    """One run for `watch`: state, progress, latest metrics with their course, last log lines."""
    name, reason = visible(run["name"]), visible(stated(run))
    head = Text.assemble((name, "bold"), f"  {run['id']}  ", state(run), f"  {reason}")
    bars = Table.grid(padding=(0, 1))
    bar = ProgressBar(total=run["iterations"], completed=run["iteration"], width=40)
    bars.add_row(f"iteration {progress(run)}", bar, f"{duration(run['eta_seconds'])} left")
    metrics = plain_table("metric", "step", "value", "course", right=("step", "value"))
    for key, columns in series.items():
        values = columns["values"]
        metrics.add_row(
            Text(labelled(run, key)), str(columns["steps"][-1]), number(values[-1]), spark(values[-40:])
        )
    remedy = [Text(visible(f"Remedy: {run['remedy']}"))] if run.get("remedy") else []
    log = [Text.assemble((f"{line['time'][11:19]} ", "dim"), log_line(line), style="dim") for line in lines]
    return Group(head, *remedy, bars, "", metrics, "", *log)
