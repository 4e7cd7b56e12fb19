"""Runs of cases, recorded: their metrics, so that rules are judged again without another run.

python -m tests.diagnosis.recording var/diagnosis SEED [--seed SEED] [NAME ...]
"""

import argparse
import json
import shutil
import sys
from collections import Counter
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from tests.benchmarks.local_runs import events
from tests.diagnosis.sabotage import BASE, CASES, HEALTHY, ITERATIONS, SMALL
from workers.run import main as run

Points = dict[str, dict[str, float]]


def recorded(folder: Path, name: str, seed: int) -> Path:
    """Return the file of a run."""
    return folder / f"{name.replace(' ', '_')}-{seed}.json"


def record(folder: Path, name: str, seed: int) -> Path:
    """Play a case, unless it is recorded, and return the file with its metrics and the errors of its episodes."""
    file = recorded(folder, name, seed)
    if file.exists():
        return file
    preset, overrides, planted = _plan(name)
    place = folder / "runs" / file.stem
    shutil.rmtree(place, ignore_errors=True)
    words = ["--preset", preset, "--local", "--home", str(folder / "home"), "--folder", str(place)]
    with planted():
        run([*words, f"run.iterations={ITERATIONS}", f"run.seed={seed}", *SMALL, *overrides])
    points: Points = {}
    for event in events(place, "metrics", "**/*.jsonl"):
        for key, value in event["values"].items():
            points.setdefault(key, {})[str(event["step"])] = float(value)
    document = {
        "preset": preset,
        "overrides": [*SMALL, *overrides],
        "errors": _errors(place),
        "points": points,
    }
    file.write_text(json.dumps(document))
    shutil.rmtree(place)
    return file


def _plan(name: str) -> tuple[str, tuple[str, ...], Any]:
    if name in CASES:
        return BASE, CASES[name].overrides, CASES[name].planted
    return *HEALTHY[name], nullcontext


def _errors(place: Path) -> dict[str, str]:
    """The commonest errors, as `HealthInputs.errors`."""
    errors: dict[str, Counter[str]] = {}
    for episode in events(place, "episode", "**/*.jsonl"):
        if episode["kind"] == "train" and episode["error"]:
            metric = "rollout/failed" if episode["failed"] else "rollout/agent_errors"
            errors.setdefault(metric, Counter())[episode["error"].partition("\n")[0][:200]] += 1
    return {metric: counted.most_common(1)[0][0] for metric, counted in errors.items()}


def main(words: Sequence[str] | None = None) -> None:
    """Record runs; those that exist are kept."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("names", nargs="*", default=[*CASES, *HEALTHY])
    parser.add_argument("--seed", type=int, action="append")
    arguments = parser.parse_intermixed_args(words)
    arguments.folder.mkdir(parents=True, exist_ok=True)
    for seed in arguments.seed or [1]:
        for name in arguments.names or [*CASES, *HEALTHY]:
            sys.stdout.write(f"{record(arguments.folder.resolve(), name, seed)}\n")


if __name__ == "__main__":
    main()
