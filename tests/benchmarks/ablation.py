"""AT-GRPO beside its controls at equal sampling budget: `python -m tests.benchmarks.ablation [--seeds 0 1 2] [key=value ...]`.

Every arm is trained on plan_path with each seed, one process with one thread at a time; a run that is finished in the home
folder is read, not trained again. The budget is the number of answers that were sampled in training: arms are compared where
the shortest of all runs ended, and before, by straight lines between their evaluations. Prints a table in Markdown: mean
over seeds and 95 % interval (Student's t) of success on the held-out tasks. Nothing here fails.
"""

import argparse
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from math import sqrt
from pathlib import Path
from statistics import mean, stdev

from tests.benchmarks.local_runs import HOME, events, finished, train
from tests.benchmarks.plan_path_duo import play_swapped

KINDS = {"sampled": "eval_sampled/success", "greedy": "eval/success"}
STUDENT = {1: 12.706, 2: 4.303, 3: 3.182, 4: 2.776, 5: 2.571, 6: 2.447, 7: 2.365, 8: 2.306, 9: 2.262}
"""Degrees of freedom -> quantile 0.975 of Student's t."""
SHARES = (1 / 8, 1 / 4, 1 / 2, 1)


@dataclass(frozen=True)
class Arm:
    """One way to train."""

    title: str
    preset: str = "plan_path_duo"
    overrides: tuple[str, ...] = ()


ARMS = {
    "per_role": Arm("AT-GRPO, a policy per role"),
    "shared": Arm("AT-GRPO, one shared policy", overrides=("team.roles.executor.policy=planner",)),
    "episodes": Arm(
        "GRPO on whole episodes, a policy per role",
        overrides=("workflow.type=episodes", "resources.environments_per_worker=192"),
    ),
    "single": Arm("single agent, multi-turn", "plan_path_single"),
}


@dataclass
class Curve:
    """One run."""

    success: dict[str, dict[int, float]] = field(default_factory=lambda: {kind: {} for kind in KINDS})
    """By kind of play and iteration."""
    answers: dict[int, int] = field(default_factory=lambda: {0: 0})
    """Sampled in training up to and with an iteration."""
    swapped: dict[str, float] = field(default_factory=dict)

    @property
    def budget(self) -> int:
        """All answers of the run."""
        return max(self.answers.values())

    def at(self, kind: str, answers: float) -> float:
        """Success after so many sampled answers."""
        points = [(self.answers[step], value) for step, value in sorted(self.success[kind].items())]
        for (low, before), (high, after) in zip(points, points[1:], strict=False):
            if low <= answers <= high:
                return before + (after - before) * (answers - low) / (high - low)
        return points[-1][1]


def main(words: Sequence[str] | None = None) -> None:
    """Train what is missing, then print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--arms", nargs="+", choices=list(ARMS), default=list(ARMS))
    parser.add_argument("--home", type=Path, default=HOME / "ablation")
    parser.add_argument("overrides", nargs="*", metavar="key=value")
    arguments = parser.parse_intermixed_args(words)
    curves = {
        name: [curve(name, seed, arguments.home, arguments.overrides) for seed in arguments.seeds]
        for name in arguments.arms
    }
    sys.stdout.write("\n".join(report(curves)) + "\n")


def curve(name: str, seed: int, home: Path, overrides: list[str]) -> Curve:
    """A run, trained first where it is not there."""
    folder = arm_run(ARMS[name], name, seed, home, overrides)
    found = read(folder)
    if name == "per_role":
        kinds = {"sampled": "eval_sampled", "greedy": "eval"}
        swapped = play_swapped(folder)
        found.swapped = {kind: swapped[key] for kind, key in kinds.items()}
    return found


def arm_run(arm: Arm, name: str, seed: int, home: Path, overrides: Sequence[str]) -> Path:
    """The folder of a run, trained first where it is not there."""
    folder = home / "runs" / f"{name}-seed-{seed}"
    if not finished(folder):
        train(arm.preset, home, folder, [*arm.overrides, f"run.seed={seed}", *overrides])
    return folder


def read(folder: Path) -> Curve:
    """From the run's events."""
    found = Curve()
    for event in events(folder, "metrics"):
        step, values = event["step"], event["values"]
        for kind, name in KINDS.items():
            if name in values:
                found.success[kind][step] = values[name]
        if "progress/env_steps" in values:
            found.answers[step] = int(values["progress/env_steps"])
    return found


def report(curves: dict[str, list[Curve]]) -> list[str]:
    """A row per arm; the base models and the swapped policies between and below."""
    budget = min(each.budget for runs in curves.values() for each in runs)
    heads = [f"{share:.3g} of the budget" for share in SHARES[:-1]] + ["the whole budget"]
    lines = [
        f"Budget: {budget:,} sampled answers. Success, sampled / greedy, mean ± 95 % interval over seeds.",
        "",
        f"| arm | untrained | {' | '.join(heads)} | at the end of its own run | answers of its own runs |",
        "|---" * (len(SHARES) + 4) + "|",
    ]
    for name, runs in curves.items():
        cells = [
            cell(*([each.at(kind, share * budget) for each in runs] for kind in KINDS)) for share in SHARES
        ]
        last = cell(*([each.at(kind, each.budget) for each in runs] for kind in KINDS))
        spent = ", ".join(f"{each.budget:,}" for each in runs)
        base = cell(*([each.success[kind][0] for each in runs] for kind in KINDS), spread=False)
        lines.append(f"| {ARMS[name].title} | {base} | {' | '.join(cells)} | {last} | {spent} |")
        if name == "per_role":
            swapped = cell(*([each.swapped[kind] for each in runs] for kind in KINDS))
            lines.append(f"| the same, policies swapped {'| ' * (len(SHARES) + 1)}| {swapped} | |")
    return lines


def cell(sampled: Iterable[float], greedy: Iterable[float], *, spread: bool = True) -> str:
    """Sampled / greedy."""
    return " / ".join(interval(list(values), spread=spread) for values in (sampled, greedy))


def interval(values: list[float], *, spread: bool = True) -> str:
    """Mean and half the width of its 95 % interval."""
    if len(values) < 2 or not spread:
        return f"{mean(values):.2f}"
    freedom = len(values) - 1
    half = STUDENT.get(freedom, 1.96) * stdev(values) / sqrt(len(values))
    return f"{mean(values):.2f} ± {half:.2f}"


if __name__ == "__main__":
    main()
