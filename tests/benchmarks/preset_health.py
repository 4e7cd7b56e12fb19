"""Health findings of whole runs of presets: `python -m tests.benchmarks.preset_health arithmetic sudoku [--seed 1] [key=value ...]`.

Runs each preset in one process without a server, then judges its metrics after every iteration as the server does, and prints every
finding with its steps, its level and the largest ratio of value and threshold. `--events FOLDER` judges a run that exists.
"""

import argparse
import os
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import django
import numpy as np

from tests.benchmarks.local_runs import events, train
from training_core.config.files import load_config, parse_overrides
from training_core.config.health import RunHealth

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "webapp.config.settings")
django.setup()

from webapp.health.inputs import HealthInputs, SeriesTail  # noqa: E402
from webapp.health.rules import judge  # noqa: E402
from webapp.health.services import Level, level_now  # noqa: E402

Curves = dict[str, dict[int, float]]


@dataclass
class Course:
    """One finding over a run."""

    rule: str
    key: str
    steps: list[int]
    """Steps at which it is open."""
    level: Level
    """The highest."""
    excess: float
    """The largest ratio of value and threshold."""
    title: str
    """At the largest ratio."""
    open_at_end: bool = False

    def __str__(self) -> str:
        end = ", open at the end" if self.open_at_end else ""
        return (
            f"{self.rule} {self.key}: {self.level.name.lower()} from step {self.steps[0]} to {self.steps[-1]} "
            f"({len(self.steps)} checks{end}); {self.excess:.2f} times the threshold: {self.title}"
        )


def read_curves(folder: Path) -> Curves:
    """Return every metric of a run's events, value by step."""
    curves: Curves = {}
    for event in events(folder, "metrics", "**/*.jsonl"):
        for key, value in event["values"].items():
            curves.setdefault(key, {})[event["step"]] = float(value)
    return curves


def inputs_until(curves: Curves, until: int) -> HealthInputs:
    """Return what the rules see after an iteration."""
    shown = {}
    for key, points in curves.items():
        steps = [step for step in sorted(points) if step <= until]
        if steps:
            shown[key] = SeriesTail(np.array(steps), np.array([points[step] for step in steps]))
    return HealthInputs(shown, step=until)


def courses(
    curves: Curves, health: RunHealth, known: Callable[[HealthInputs], HealthInputs] = lambda seen: seen
) -> list[Course]:
    """Judge a run after every iteration; returns its findings in the order in which they open.

    known: adds to the input what curves do not contain.
    """
    seen: dict[tuple[str, str], Course] = {}
    levels: dict[tuple[str, str], Level] = {}
    for step in sorted({step for points in curves.values() for step in points}):
        now: dict[tuple[str, str], Level] = {}
        for rule, measurement in judge(health, known(inputs_until(curves, step))):
            at = (rule, measurement.key)
            level = level_now(levels.get(at, Level.NONE), measurement, health.relax)
            if level is Level.NONE:
                continue
            now[at] = level
            course = seen.setdefault(at, Course(rule, measurement.key, [], level, 0.0, ""))
            course.steps.append(step)
            course.level = max(course.level, level)
            if measurement.excess > course.excess:
                course.excess, course.title = measurement.excess, measurement.title
        levels = now
    for at, course in seen.items():
        course.open_at_end = at in levels
    return list(seen.values())


def main(words: Sequence[str] | None = None) -> None:
    """Run, judge, print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("words", nargs="+", metavar="PRESET | key=value")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--events", type=Path, help="folder of a run that exists, of the one preset")
    arguments = parser.parse_intermixed_args(words)
    overrides = [f"run.seed={arguments.seed}", *(word for word in arguments.words if "=" in word)]
    for preset in (word for word in arguments.words if "=" not in word):
        with tempfile.TemporaryDirectory(prefix="troupe-health-") as home:
            if not arguments.events:
                train(preset, Path(home), Path(home) / "run", overrides)
            curves = read_curves(arguments.events or Path(home) / "run")
        held = sorted(curves.get("eval/success", {}).items())
        findings = courses(curves, load_config(preset, parse_overrides(overrides)).health)
        print(
            f"{preset}: {len(findings)} findings; eval/success {held[0][1]:.2f} to {held[-1][1]:.2f}"
            if held
            else f"{preset}: {len(findings)} findings"
        )
        print("".join(f"  {course}\n" for course in findings), end="", flush=True)


if __name__ == "__main__":
    main()
