"""JSON Lines: `metrics.jsonl` in the run folder. The first line has the config."""

import time
from collections.abc import Mapping, Sequence
from typing import Any

import orjson

from training_core.loggers.registry import LoggerSetup

FILE = "metrics.jsonl"


class JsonLines:
    """Writes metrics to a file of JSON lines. NaN and infinities become null, because JSON cannot represent them."""

    def __init__(self, setup: LoggerSetup) -> None:
        self._file = (setup.folder / FILE).open("ab")
        about = {"project": setup.project, "run": setup.run, "name": setup.name}
        self._write(about | {"config": setup.config})

    def scalars(self, step: int, values: Mapping[str, float]) -> None:
        self._write({"step": step, "time": time.time(), "values": values})

    def histogram(self, step: int, name: str, numbers: Sequence[float]) -> None:
        self._write({"step": step, "time": time.time(), "histogram": name, "numbers": list(numbers)})

    def close(self) -> None:
        self._file.close()

    def _write(self, line: Mapping[str, Any]) -> None:
        self._file.write(orjson.dumps(line) + b"\n")
        self._file.flush()
