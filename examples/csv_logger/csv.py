"""CSV: `metrics.csv` in the run folder."""

import csv
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from training_core.config.base import Section

if TYPE_CHECKING:
    from training_core.loggers.registry import LoggerSetup


class CsvFields(Section):
    """Fields of `[reporting]` for CSV."""

    csv: bool = False
    """Also write every metric to metrics.csv in the run's folder: step, name and value."""


class CsvLogger:
    """See Logger. A distribution is written as its mean."""

    def __init__(self, setup: "LoggerSetup") -> None:
        self._file = (setup.folder / "metrics.csv").open("a", newline="")
        self._rows = csv.writer(self._file)

    def scalars(self, step: int, values: Mapping[str, float]) -> None:
        self._rows.writerows((step, name, value) for name, value in values.items())

    def histogram(self, step: int, name: str, numbers: Sequence[float]) -> None:
        self._rows.writerow((step, f"{name}/mean", sum(numbers) / len(numbers)))

    def close(self) -> None:
        self._file.close()
