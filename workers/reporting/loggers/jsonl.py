"""One JSON object a line: `metrics.jsonl` in the run's folder. The config goes before everything else."""

import time
from collections.abc import Mapping, Sequence
from typing import Any

import orjson

from workers.reporting.loggers.base import Opening

FILE = "metrics.jsonl"


class JsonLines:
    """See Logger. NaN and infinities become null, as JSON has no word for them."""

    def __init__(self, opening: Opening) -> None:
        self._file = (opening.folder / FILE).open("ab")
        about = {"project": opening.project, "run": opening.run, "name": opening.name}
        self._write(about | {"config": opening.config})

    def scalars(self, step: int, values: Mapping[str, float]) -> None:
        self._write({"step": step, "time": time.time(), "values": values})

    def histogram(self, step: int, name: str, numbers: Sequence[float]) -> None:
        self._write({"step": step, "time": time.time(), "histogram": name, "numbers": list(numbers)})

    def close(self) -> None:
        self._file.close()

    def _write(self, line: Mapping[str, Any]) -> None:
        self._file.write(orjson.dumps(line) + b"\n")
        self._file.flush()
