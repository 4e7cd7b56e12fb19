"""The reward curve of multi_turn_math, synchronous and asynchronous: `python -m tests.benchmarks.multi_turn_math [key=value ...]`.

Each loop is run with each seed in a process of its own with one thread; a run that is finished in the home folder is read, not
trained again. Rewards are of sampled play: of the tasks trained on, the first and the last SPAN iterations, and of held-out tasks
before and after. Prints a table in Markdown: mean and 95 % interval (Student's t) over seeds. Nothing here fails.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from statistics import mean

from tests.benchmarks.ablation import Arm, arm_run, interval
from tests.benchmarks.asynchronous import apart
from tests.benchmarks.local_runs import HOME, series

PRESET = "multi_turn_math"
SPAN = 3
"""Iterations that are averaged over at either end of a curve."""
ARMS = {
    "synchronous": Arm("synchronous", PRESET),
    "asynchronous": Arm(
        "staleness 2, decoupled loss",
        PRESET,
        ("rollout.staleness=2", "algorithm.correction=decoupled", *apart(PRESET)),
    ),
}


def main(words: Sequence[str] | None = None) -> None:
    """Train what is missing, then print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--arms", nargs="+", choices=list(ARMS), default=list(ARMS))
    parser.add_argument("--home", type=Path, default=HOME / PRESET)
    parser.add_argument("overrides", nargs="*", metavar="key=value")
    asked = parser.parse_intermixed_args(words)
    runs = {
        name: [arm_run(ARMS[name], name, seed, asked.home, asked.overrides) for seed in asked.seeds]
        for name in asked.arms
    }
    sys.stdout.write("\n".join(report(runs)) + "\n")


def report(runs: dict[str, list[Path]]) -> list[str]:
    """A row per loop."""
    lines = [
        f"| | iterations | reward, first {SPAN} | last {SPAN} | held out, before | after | mean age of answers |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, folders in runs.items():
        curves = [series(folder, "train/return") for folder in folders]
        held = [series(folder, "eval_sampled/return") for folder in folders]
        ages = [mean(series(folder, "rollout/staleness")) for folder in folders]
        cells = [
            ", ".join(map(str, sorted({len(curve) for curve in curves}))),
            interval([mean(curve[:SPAN]) for curve in curves]),
            interval([mean(curve[-SPAN:]) for curve in curves]),
            interval([curve[0] for curve in held]),
            interval([curve[-1] for curve in held]),
            f"{mean(ages):.1f}",
        ]
        lines.append(f"| {ARMS[name].title} | {' | '.join(cells)} |")
    return lines


if __name__ == "__main__":
    main()
