"""How fast small networks learn: `python -m tests.benchmarks.marl_learning PRESET ... [key=value ...] [--seeds 0 1 2] [--seconds 600]`.

Every preset is trained with each seed by MarlTrainer alone (no Ray, no database) in one process with one thread, one after another.
Evaluation is left out of the time. Time is both: wall seconds, and CPU seconds of the process, which are what a quiet core would
need where others use the machine too. Prints each curve (environment steps, seconds, greedy and sampled return per role: sums
over the role's agents), and a table over seeds in Markdown with when each bar was first passed. Nothing here fails.
"""

import argparse
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import mean, stdev

import torch

from training_core.config.files import load_config, parse_overrides
from training_core.config.marl.run import MarlConfig
from training_core.marl.records import Collection
from training_core.marl.trainer import MarlTrainer

BARS = {"mpe_simple_spread": (-45.0, -30.0), "toy_simple_spread": (125.0,)}
"""By environment: greedy returns of the first role whose first passing is reported."""
EPISODES = 128


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


def train(preset: str, seed: int, seconds: float, every: int, overrides: Sequence[str]) -> Curve:
    """One run of the preset's iterations, or until it has used `seconds` of CPU."""
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
        if last:
            break
    trainer.close()
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
    """When each seed first passed a bar."""
    when = [curve.passed(bar) for curve in curves]
    told = [f"{point.steps:,} steps, {point.cpu:.0f} s" if point else "never" for point in when]
    return f"{bar:g}: {', '.join(told)}"


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
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    overrides = [word for word in options.presets if "=" in word]
    curves = [
        train(preset, seed, options.seconds, options.every, overrides)
        for preset in options.presets
        if "=" not in preset
        for seed in options.seeds
    ]
    print(table(curves))


if __name__ == "__main__":
    main()
