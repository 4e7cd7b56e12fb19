"""Runs of presets in processes of their own, one thread each, and what their events say."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from tests.benchmarks.folders import ROOT

HOME = ROOT / "var" / "benchmarks"
"""Where runs are kept that are read again."""


def command(preset: str, home: Path, folder: Path, words: Sequence[str]) -> list[str]:
    """The command that runs a preset; `words` are options and overrides."""
    places = ["--home", str(home), "--folder", str(folder)]
    return [sys.executable, "-m", "workers.run", "--preset", preset, *places, *words]


def environment() -> dict[str, str]:
    """One thread, and the code of this checkout."""
    return os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}


def train(
    preset: str, home: Path, folder: Path, overrides: Sequence[str], sampler: Sequence[str] = ()
) -> None:
    """Run a preset with everything in one process, below the command `sampler` if there is one."""
    words = [*sampler, *command(preset, home, folder, ["--local", *overrides])]
    subprocess.run(words, cwd=ROOT, env=environment(), check=True, stdout=sys.stderr)


def events(folder: Path, kind: str, pattern: str = "attempt-*/spool/*.jsonl") -> Iterator[dict[str, Any]]:
    """Events of one type in the order in which they were told."""
    for spool in sorted(folder.glob(pattern)):
        for line in spool.read_text().split("\n")[:-1]:  # the last one may be incomplete
            event = json.loads(line)
            if event["type"] == kind:
                yield event


def series(folder: Path, name: str) -> list[float]:
    """A metric's values in order."""
    return [float(event["values"][name]) for event in events(folder, "metrics") if name in event["values"]]


def finished(folder: Path) -> bool:
    """Whether the run's own events say that it ended well."""
    return any(event["state"] == "finished" for event in events(folder, "status"))
