"""How often findings name a planted fault, and how often they are raised without one.

    python -m tests.diagnosis.counting var/diagnosis docs/use/findings.md

judges the recorded runs (tests/diagnosis/recording.py) after every iteration as the server does, and writes the page.
"""

import argparse
import json
import subprocess
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from math import sqrt
from pathlib import Path

from tests.benchmarks.preset_health import Course, courses
from tests.diagnosis.recording import recorded
from tests.diagnosis.sabotage import BASE, CASES, HEALTHY, ITERATIONS, MISSING, SMALL
from training_core.config.files import load_config, parse_overrides
from training_core.config.health import RunHealth
from webapp.health.answers import whose

Z = 1.96
"""Quantile of a confidence of 95%."""
TEXT = """# How good the findings are

Numbers of {date}, commit `{commit}`, {runs} runs. The [rules](health.md) and their thresholds were set before these runs were
played. Intervals are Wilson's with a confidence of 95%. Runs are small: tiny models, `{base}`, {iterations} iterations,
`{small}`.

| | runs | share | interval |
|---|---|---|---|
| planted faults named (recall) | {named} of {faulty} | {recall} | {recall_interval} |
| findings in faulty runs that name the fault (precision) | {right} of {all_findings} | {precision} | {precision_interval} |
| healthy runs without a finding | {quiet} of {healthy} | {silence} | {silence_interval} |

A fault is named if a rule that is meant for it has a finding, about the right policy or role if the fault has one. Findings that
name a consequence count as wrong in the second row: weights that do not change, for example, where all rewards are equal.

## Faults

"Named" is the number of runs; "first" is the iteration after which the first such finding is open, in each run that has one.

| fault | rules meant for it | named | first | other findings |
|---|---|---|---|---|
{faults}

No rule is meant for: {missing}. Weights that do not reach the engine are not planted, because engine and learner
of these runs share them.

## Healthy runs

| run | seeds | findings |
|---|---|---|
{well}

## Reproduce

```text
python -m tests.diagnosis.recording var/diagnosis --seed {seeds}
python -m tests.diagnosis.counting var/diagnosis docs/use/findings.md
```
"""


@dataclass(frozen=True)
class Judged:
    """A recorded run with its findings."""

    name: str
    seed: int
    iterations: int
    findings: list[Course]

    def right(self) -> list[Course]:
        """Return the findings that name the planted fault."""
        case = CASES[self.name]
        return [one for one in self.findings if one.rule in case.names and case.whose in ("", whose(one.key))]


def judged(folder: Path, name: str, seed: int) -> Judged | None:
    """Return a recorded run with its findings; None if it is not recorded."""
    file = recorded(folder, name, seed)
    if not file.exists():
        return None
    document = json.loads(file.read_text())
    curves = {
        key: {int(step): value for step, value in points.items()}
        for key, points in document["points"].items()
    }
    config = load_config(document["preset"], parse_overrides(document["overrides"]))
    steps = [step for points in curves.values() for step in points]
    evaluated = config.evaluation.episodes
    health: RunHealth = config.health
    found = courses(
        curves, health, lambda seen: replace(seen, evaluated=evaluated, errors=document["errors"])
    )
    return Judged(name, seed, max(steps, default=0), found)


def interval(part: int, whole: int) -> tuple[float, float]:
    """Return Wilson's interval of a share; 0 to 1 without runs."""
    if not whole:
        return 0.0, 1.0
    share, square = part / whole, Z * Z
    middle = (share + square / (2 * whole)) / (1 + square / whole)
    half = Z * sqrt(share * (1 - share) / whole + square / (4 * whole * whole)) / (1 + square / whole)
    return max(middle - half, 0.0), min(middle + half, 1.0)


def page(faulty: Sequence[Judged], well: Sequence[Judged]) -> str:
    """Return the page of documentation."""
    named, quiet = [bool(run.right()) for run in faulty], [not run.findings for run in well]
    right, every = sum(len(run.right()) for run in faulty), sum(len(run.findings) for run in faulty)
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=True
    )
    rows = {
        "recall": (sum(named), len(named)),
        "precision": (right, every),
        "silence": (sum(quiet), len(quiet)),
    }
    shares = {name: f"{part / max(whole, 1):.0%}" for name, (part, whole) in rows.items()}
    bounds = {name: interval(*pair) for name, pair in rows.items()}
    return TEXT.format(
        date=time.strftime("%d %B %Y"),
        commit=commit.stdout.strip(),
        runs=len(faulty) + len(well),
        base=BASE,
        iterations=ITERATIONS,
        small=" ".join(SMALL),
        named=sum(named),
        faulty=len(named),
        right=right,
        all_findings=every,
        quiet=sum(quiet),
        healthy=len(quiet),
        **shares,
        **{f"{name}_interval": f"{low:.0%} to {high:.0%}" for name, (low, high) in bounds.items()},
        faults="\n".join(_fault(name, [run for run in faulty if run.name == name]) for name in CASES),
        missing="; ".join(MISSING),
        well="\n".join(_well(name, [run for run in well if run.name == name]) for name in HEALTHY),
        seeds=" --seed ".join(str(seed) for seed in sorted({run.seed for run in (*faulty, *well)})),
    )


def _fault(name: str, runs: Sequence[Judged]) -> str:
    case = CASES[name]
    first = [str(min(one.steps[0] for one in run.right())) for run in runs if run.right()]
    others = _rules(one for run in runs for one in run.findings if one not in run.right())
    meant = ", ".join(f"`{rule}`" for rule in sorted(case.names))
    count = f"{len(first)} of {len(runs)}" if runs else "not run"
    count += "".join(f", seed {_seed(run)}" for run in runs if run.iterations < ITERATIONS)
    return f"| {case.about} | {meant} | {count} | {', '.join(first)} | {others} |"


def _well(name: str, runs: Sequence[Judged]) -> str:
    seeds = ", ".join(map(_seed, runs)) or "not run"
    return f"| {name} | {seeds} | {_rules(one for run in runs for one in run.findings)} |"


def _seed(run: Judged) -> str:
    """Return the seed of a run, with its iterations if it has fewer than planned."""
    short = run.iterations < ITERATIONS
    return f"{run.seed} ({run.iterations} iterations)" if short else str(run.seed)


def _rules(findings: Iterable[Course]) -> str:
    counted = Counter(one.rule for one in findings)
    return ", ".join(f"`{rule}` {count}" for rule, count in counted.most_common())


def main(words: Sequence[str] | None = None) -> None:
    """Judge and write."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("page", type=Path)
    parser.add_argument("--seeds", type=int, default=10, help="highest seed that is read")
    arguments = parser.parse_args(words)
    faulty, well = (
        [
            run
            for name in names
            for seed in range(arguments.seeds + 1)
            if (run := judged(arguments.folder, name, seed))
        ]
        for names in (CASES, HEALTHY)
    )
    arguments.page.write_text(page(faulty, well))


if __name__ == "__main__":
    main()
