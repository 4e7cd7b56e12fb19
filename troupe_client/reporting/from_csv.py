"""Runs from CSV files: a row is a step, a column with numbers is a metric.

The columns and comments of TensorBoard, Weights & Biases, stable-baselines3 and Keras are known.
"""

import csv
import json
from collections.abc import Iterable, Iterator
from functools import partial
from math import isfinite
from pathlib import Path
from typing import Any

from training_core.errors import TroupeError
from troupe_client.reporting.importing import ImportedRun, Skipped, files_within, read_each

STEPS = (
    "step",
    "_step",
    "global_step",
    "iteration",
    "time/total_timesteps",
    "total_timesteps",
    "timesteps_total",
    "epoch",
)
"""Columns with the step, in any case; the first one that has only whole numbers counts. Without one, rows count from 0."""
TIMES = ("timestamp", "_timestamp", "wall time", "wall_time")
"""Columns with the time since the epoch, in any case. Without one, it is the time of the file's last change."""
START, SINCE = "t_start", "t"
"""Monitor files of stable-baselines3: the start in their first line, and the column with the seconds since then."""
Row = dict[str, float]


def runs_of(path: Path, skipped: Skipped | None = None) -> Iterator[ImportedRun]:
    """Yield a run for the file, or for each CSV file below the folder. Cells without a number are left out.

    `skipped` receives the files that cannot be read, with the reasons.
    """
    files = files_within(path, path, "*.csv") if path.is_dir() else [path]
    return read_each(files, partial(_run_of, path), skipped)


def _run_of(path: Path, file: Path) -> ImportedRun | None:
    inside = file.relative_to(path).with_suffix("") if path.is_dir() else Path(file.stem)
    comments: dict[str, Any] = {}
    try:
        with file.open(newline="", encoding="utf-8-sig") as lines:
            rows = [_numbers(row) for row in csv.DictReader(_without_comments(lines, comments))]
    except UnicodeDecodeError as error:
        raise TroupeError(f"it is not UTF-8 text: {error}. Convert it, for example by iconv") from error
    run = ImportedRun(str(file.resolve()), str(inside), comments | {"file": str(file)})
    step_column = next((name for name in STEPS if _is_whole(rows, name)), "")
    started, changed = comments.get(START), file.stat().st_mtime
    for number, row in enumerate(rows):
        cells = {name.strip().lower(): value for name, value in row.items()}
        known = {step_column, *TIMES}
        step = int(cells[step_column]) if step_column in cells else number
        written = next((cells[name] for name in TIMES if cells.get(name, -1) >= 0), changed)
        if isinstance(started, int | float) and SINCE in cells:
            written = started + cells[SINCE]
        values = {name: value for name, value in row.items() if name.strip().lower() not in known}
        run.add("rows", step, values, written)
    return run if run.count else None


def _without_comments(lines: Iterable[str], comments: dict[str, Any]) -> Iterator[str]:
    """Yield the lines without those that begin with #. `comments` receives the fields of JSON objects behind it."""
    for line in lines:
        if not line.startswith("#"):
            yield line
            continue
        try:
            fields = json.loads(line[1:])
        except ValueError:
            continue
        comments |= fields if isinstance(fields, dict) else {}


def _is_whole(rows: Iterable[Row], column: str) -> bool:
    values = [value for row in rows for name, value in row.items() if name.strip().lower() == column]
    return bool(values) and all(isfinite(value) and value == int(value) for value in values)


def _numbers(row: dict[str, Any]) -> Row:
    """The cells with numbers."""
    out: Row = {}
    for name, text in row.items():
        try:
            out[name] = float(text)
        except (TypeError, ValueError):
            continue
    out.pop(None, None)  # type: ignore[call-overload]
    return out
