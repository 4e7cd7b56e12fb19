"""Runs from CSV files: a row is a step, a column with numbers is a metric."""

import csv
from collections.abc import Iterator
from math import isfinite, nan
from pathlib import Path

from troupe_client.reporting.importing import ImportedRun, files_within

STEPS = (
    "step",
    "_step",
    "global_step",
    "iteration",
    "time/total_timesteps",
    "total_timesteps",
    "timesteps_total",
)
"""Columns with the step; the first one that exists counts. Without one, rows count from 0."""
TIMES = ("timestamp", "_timestamp")
"""Columns with the seconds since the epoch. Without one, it is the time of the file's last change."""


def runs_of(path: Path) -> Iterator[ImportedRun]:
    """Yield a run for the file, or for each CSV file below the folder. Cells without a number are left out."""
    for file in files_within(path, path, "*.csv") if path.is_dir() else [path]:
        inside = file.relative_to(path).with_suffix("") if path.is_dir() else Path(file.stem)
        run = ImportedRun(str(file.resolve()), str(inside), {"file": str(file)})
        with file.open(newline="", encoding="utf-8-sig") as lines:
            for number, row in enumerate(csv.DictReader(lines)):
                _add(run, number, row, file)
        if run.count:
            yield run


def _add(run: ImportedRun, number: int, row: dict[str, str | None], file: Path) -> None:
    cells = {name: value for name, text in row.items() if name and (value := _number(text)) is not None}
    step = next((int(cells.pop(name)) for name in STEPS if isfinite(cells.get(name, nan))), number)
    written = next((cells.pop(name) for name in TIMES if cells.get(name, nan) >= 0), file.stat().st_mtime)
    run.add("rows", step, cells, written)


def _number(text: str | None) -> float | None:
    try:
        return float(text or "")
    except ValueError:
        return None
