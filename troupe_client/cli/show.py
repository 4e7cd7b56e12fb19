"""How runs look in a terminal."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

console = Console()
errors = Console(stderr=True)

TONES = {
    "running": "green", "starting": "cyan", "queued": "yellow", "stopping": "yellow", "paused": "blue",
    "finished": "bold green", "stopped": "dim", "failed": "bold red",
}  # fmt: skip
OUTCOMES = ("eval/success", "eval/return", "train/return")
"""What tables show of runs and checkpoints, where some have it."""
ENDED = ("finished", "stopped", "failed", "paused")
MOST_TURNS = 12
SPARKS = "▁▂▃▄▅▆▇█"


def duration(seconds: float | None) -> str:
    """1 h 02 min, 3 min 05 s, 12 s; a dash for nothing."""
    if seconds is None or not math.isfinite(seconds):
        return "–"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes:02d} min"
    return f"{minutes} min {rest:02d} s" if minutes else f"{rest} s"


def number(value: Any) -> str:
    """Three decimals; words (NaN) as they are; a dash for nothing."""
    return f"{value:.3f}" if isinstance(value, int | float) else str(value if value is not None else "–")


def size(count: float) -> str:
    """Bytes in powers of 1,000: 512 B, 1.4 MB."""
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:,.1f} TB"


def spark(values: list[Any]) -> str:
    """A line of blocks; what is missing is blank."""
    known = [value for value in values if isinstance(value, int | float) and math.isfinite(value)]
    if not known:
        return ""
    low, span = min(known), (max(known) - min(known)) or 1.0
    return "".join(
        SPARKS[round((value - low) / span * (len(SPARKS) - 1))]
        if isinstance(value, int | float) and math.isfinite(value)
        else " "
        for value in values
    )


def visible(text: str) -> str:
    """Text of others without control characters, which could command the terminal; lines and tabs stay."""
    return "".join(char if char.isprintable() or char in "\n\t" else "\ufffd" for char in text)


def turns_line(turns: Sequence[Mapping[str, Any]]) -> str:
    """Who said or did what, the first MOST_TURNS of them on one line."""
    said = [f"{turn['role']}: {'; '.join(turn['text'].splitlines())}" for turn in turns[:MOST_TURNS]]
    return " | ".join(said) + (f" | and {len(turns) - MOST_TURNS} more" if len(turns) > MOST_TURNS else "")


def known(rows: Sequence[Mapping[str, Any]], keys: Sequence[str]) -> list[str]:
    """Those of `keys` that some row has a value of; the first one in any case."""
    return [key for key in keys if any(row.get(key) is not None for row in rows)] or list(keys[:1])


def log_line(line: dict[str, Any]) -> Text:
    """A log line as plain text, whatever is in it."""
    return Text(visible(f"{line['time'][:19]} {line['level']:7} {line['source']}: {line['message']}"))


def state(run: dict[str, Any]) -> Text:
    """The state in its colour."""
    return Text(run["state"], style=TONES.get(run["state"], ""))


def runs_table(runs: list[dict[str, Any]]) -> Table:
    """Runs, one a row, with the columns that were asked for or the usual ones."""
    own = list(runs[0].get("columns", {}))
    shown = known([run["headline"] for run in runs], OUTCOMES)
    table = Table(box=None, pad_edge=False, header_style="dim")
    for heading, justify in (
        ("id", "left"), ("name", "left"), ("state", "left"), ("iteration", "right"), ("left", "right"),
        *((word, "right") for word in own or shown), ("reason", "left"),
    ):  # fmt: skip
        table.add_column(heading, justify=justify)  # type: ignore[arg-type]
    for run in runs:
        table.add_row(
            run["id"],
            Text(visible(run["name"])),
            state(run),
            f"{run['iteration']}/{run['iterations']}",
            duration(run["eta_seconds"]),
            *_figures(run, own, shown),
            Text(visible(run["reason"]), style="dim"),
        )
    return table


def _figures(run: dict[str, Any], own: list[str], shown: list[str]) -> list[Text]:
    if own:
        return [_cell(run["columns"][word], run["changes"].get(word)) for word in own]
    return [Text(number(run["headline"].get(key))) for key in shown]


def _cell(value: Any, change: Any = None) -> Text:
    """A figure with its change, or what a config holds."""
    if isinstance(value, float):
        return Text(number(value) + (f" ({change:+.3f})" if change is not None else ""))
    return Text("–" if value is None else visible(str(value)))


def run_panel(run: dict[str, Any], series: dict[str, Any], lines: list[dict[str, Any]]) -> RenderableType:
    """One run for `watch`: state, progress, latest figures with their course, last log lines."""
    name, reason = visible(run["name"]), visible(run["reason"])
    head = Text.assemble((name, "bold"), f"  {run['id']}  ", state(run), f"  {reason}")
    progress = Table.grid(padding=(0, 1))
    bar = ProgressBar(total=run["iterations"], completed=run["iteration"], width=40)
    progress.add_row(
        f"iteration {run['iteration']}/{run['iterations']}", bar, f"{duration(run['eta_seconds'])} left"
    )
    figures = Table(box=None, pad_edge=False, header_style="dim")
    for heading, justify in (("metric", "left"), ("step", "right"), ("value", "right"), ("course", "left")):
        figures.add_column(heading, justify=justify)  # type: ignore[arg-type]
    for key, columns in series.items():
        values = columns["values"]
        figures.add_row(Text(key), str(columns["steps"][-1]), number(values[-1]), spark(values[-40:]))
    said = [visible(f"{line['time'][11:19]} {line['source']}: {line['message']}") for line in lines]
    log = [Text(line, style="dim") for line in said]
    return Group(head, progress, "", figures, "", *log)
