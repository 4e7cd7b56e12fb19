"""How fast small networks learn: `python -m tests.benchmarks.marl_learning PRESET ... [key=value ...] [--seeds 0 1 2] [--out FOLDER]`.

Every preset is trained with each seed by MarlTrainer alone (no Ray, no database) in one process with one thread, one after another.
Evaluation is left out of the time. Time is both: wall seconds, and CPU seconds of the process, which are what a quiet core would
need where others use the machine too. Prints each curve (environment steps, seconds, greedy and sampled return per role: sums
over the role's agents), and a table over seeds in Markdown with when each bar was first passed. Nothing here fails.
`--out FOLDER` also writes every curve as CSV, point by point, for tests/benchmarks/marl_curves.py, which draws them.
"""

import argparse
import csv
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import mean, stdev

import torch

from training_core.config.files import load_config, parse_overrides
from training_core.config.marl import MarlConfig
from training_core.marl.records import Collection
from training_core.marl.trainer import MarlTrainer

BARS = {"mpe_simple_spread": (-45.0, -30.0), "toy_simple_spread": (125.0,)}
"""By environment: greedy returns of the first role whose first passing is reported."""
EPISODES = 256
"""Of each evaluation."""
COLUMNS = ("preset", "seed", "environment", "steps", "wall", "cpu", "role", "greedy", "sampled")
"""Of a curve's CSV: one line per evaluation and role."""


@dataclass(frozen=True)
class Point:
    """One evaluation."""

    steps: int
    wall: float
    cpu: float
    greedy: dict[str, float]
    sampled: dict[str, float]


@dataclass
class Curve:
    """One run."""

    preset: str
    seed: int
    environment: str
    points: list[Point] = field(default_factory=list)

    def passed(self, bar: float) -> Point | None:
        """The first evaluation at or above the bar."""
        return next((point for point in self.points if next(iter(point.greedy.values())) >= bar), None)


def train(
    preset: str, seed: int, seconds: float, every: int, overrides: Sequence[str], out: Path | None = None
) -> Curve:
    """One run of the preset's iterations, or until it has used `seconds` of CPU; its points are kept in the folder `out`."""
    config = load_config(preset, parse_overrides([*overrides, f"run.seed={seed}"]))
    assert isinstance(config, MarlConfig), f"{preset} is no preset of small networks"
    trainer = MarlTrainer(config)
    curve = Curve(preset, seed, config.environment.type)
    wall = cpu = 0.0
    steps = 0
    for iteration in range(1, config.run.iterations + 1):
        wall_began, cpu_began = time.perf_counter(), time.process_time()
        steps += trainer.collect(iteration).steps
        trainer.update(iteration)
        wall += time.perf_counter() - wall_began
        cpu += time.process_time() - cpu_began
        last = iteration == config.run.iterations or cpu >= seconds
        if iteration % every == 0 or last:
            greedy, sampled = (returns(trainer.evaluate(kind, EPISODES)) for kind in (True, False))
            curve.points.append(Point(steps, wall, cpu, greedy, sampled))
            print(row(curve), flush=True)
            if out:
                write(curve, out)
        if last:
            break
    trainer.close()
    return curve


def write(curve: Curve, folder: Path) -> None:
    """The curve so far, as CSV."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / f"{curve.preset}-{curve.seed}.csv").open("w", newline="") as file:
        lines = csv.writer(file)
        lines.writerow(COLUMNS)
        for point in curve.points:
            for role, greedy in point.greedy.items():
                numbers = (point.steps, f"{point.wall:.1f}", f"{point.cpu:.1f}")
                returned = (f"{greedy:.2f}", f"{point.sampled[role]:.2f}")
                lines.writerow([curve.preset, curve.seed, curve.environment, *numbers, role, *returned])


def read(path: Path) -> Curve:
    """What `write` wrote."""
    with path.open(newline="") as file:
        lines = list(csv.DictReader(file))
    curve = Curve(lines[0]["preset"], int(lines[0]["seed"]), lines[0]["environment"])
    for line in lines:
        if not curve.points or curve.points[-1].steps != int(line["steps"]):
            curve.points.append(Point(int(line["steps"]), float(line["wall"]), float(line["cpu"]), {}, {}))
        curve.points[-1].greedy[line["role"]] = float(line["greedy"])
        curve.points[-1].sampled[line["role"]] = float(line["sampled"])
    return curve


def returns(found: Collection) -> dict[str, float]:
    """Mean return of an episode by role."""
    return {
        role: mean(episode.rewards[role] for episode in found.episodes) for role in found.episodes[0].rewards
    }


def row(curve: Curve) -> str:
    """The last evaluation of a run."""
    point = curve.points[-1]
    told = "  ".join(
        f"{role} {point.greedy[role]:8.2f} greedy {point.sampled[role]:8.2f} sampled" for role in point.greedy
    )
    return f"{curve.preset} seed {curve.seed}  {point.steps:>10,} steps  {point.wall:6.0f} s  {point.cpu:6.0f} s CPU  {told}"


def table(curves: Sequence[Curve]) -> str:
    """One line per preset: best and last greedy return over seeds, and when bars were passed."""
    lines = [
        "| preset | environment steps | CPU s | steps per CPU s | last greedy return | best | passed |",
        "|---|---|---|---|---|---|---|",
    ]
    for preset in dict.fromkeys(curve.preset for curve in curves):
        mine = [curve for curve in curves if curve.preset == preset]
        last = [curve.points[-1] for curve in mine]
        role = next(iter(last[0].greedy))
        bars = [passed(mine, bar) for bar in BARS.get(mine[0].environment, ())]
        cells = [
            preset,
            f"{mean(point.steps for point in last):,.0f}",
            f"{mean(point.cpu for point in last):,.0f}",
            f"{mean(point.steps / point.cpu for point in last):,.0f}",
            over_seeds([point.greedy[role] for point in last]),
            over_seeds([max(point.greedy[role] for point in curve.points) for curve in mine]),
            "; ".join(bars),
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def passed(curves: Sequence[Curve], bar: float) -> str:
    """When each seed first passed a bar: environment steps, CPU seconds, wall seconds."""
    when = [curve.passed(bar) for curve in curves]
    told = [
        f"{point.steps:,} steps, {point.cpu:.0f} CPU s, {point.wall:.0f} s" if point else "never"
        for point in when
    ]
    return f"{bar:g}: {' / '.join(told)}"


def over_seeds(numbers: Sequence[float]) -> str:
    """Mean, and standard deviation over seeds where there are several."""
    spread = f" ± {stdev(numbers):.2f}" if len(numbers) > 1 else ""
    return f"{mean(numbers):.2f}{spread}"


def main(arguments: Sequence[str] | None = None) -> None:
    """See the head of this file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("presets", nargs="+", metavar="PRESET | key=value")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--seconds", type=float, default=600.0, help="CPU seconds of a run at most")
    parser.add_argument("--every", type=int, default=25, help="iterations between evaluations")
    parser.add_argument("--out", type=Path, help="folder for the curves as CSV")
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    overrides = [word for word in options.presets if "=" in word]
    curves = [
        train(preset, seed, options.seconds, options.every, overrides, options.out)
        for preset in options.presets
        if "=" not in preset
        for seed in options.seeds
    ]
    print(table(curves))


if __name__ == "__main__":
    main()
