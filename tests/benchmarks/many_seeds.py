"""Time of several seeds of one config in one process, relative to one seed by itself, on one thread.

    python -m tests.benchmarks.many_seeds [--preset spread_mappo] [--seeds 8] [--iterations 20] [--repeats 5]

Collection and update, without evaluation and start. One seed and all seeds alternate; each repeat continues the
training. Prints medians of CPU and wall seconds per iteration, and the medians of the ratios of each repeat.
"""

import argparse
import os
from functools import partial
from statistics import median

import torch

from tests.benchmarks.results import timed
from training_core.config.files import apply_overrides, parse_config, read_preset
from training_core.config.marl import MarlConfig
from training_core.marl.seed_group import SeedGroup
from training_core.marl.trainer import MarlTrainer
from workers.actors.machine import prepare_process


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--preset", default="spread_mappo")
    parser.add_argument("--seeds", type=int, default=8)
    parser.add_argument("--iterations", type=int, default=20, help="of a repeat")
    parser.add_argument("--repeats", type=int, default=5)
    arguments = parser.parse_args()
    prepare_process(1)
    alone = MarlTrainer(_config(arguments.preset, 0))
    group = SeedGroup([_config(arguments.preset, seed) for seed in range(arguments.seeds)])
    rows: list[tuple[float, ...]] = []
    for repeat in range(arguments.repeats + 1):
        first = 1 + repeat * arguments.iterations
        span = range(first, first + arguments.iterations)
        rows.append((*timed(partial(_one, alone, span)), *timed(partial(_all, group, span))))
    rows = rows[1:]  # the first warms up
    one_cpu, one_wall, all_cpu, all_wall = (
        median(column) / arguments.iterations for column in zip(*rows, strict=True)
    )
    cpu, wall = (median(row[2 + index] / row[index] for row in rows) for index in (0, 1))
    print(f"{arguments.preset}, torch {torch.__version__}, load {os.getloadavg()[0]:.1f}")
    print(f"one seed: {one_cpu * 1e3:.1f} ms CPU, {one_wall * 1e3:.1f} ms wall per iteration")
    print(f"{arguments.seeds} seeds: {all_cpu * 1e3:.1f} ms CPU, {all_wall * 1e3:.1f} ms wall per iteration")
    print(f"{arguments.seeds} seeds to one: {cpu:.2f} x CPU time, {wall:.2f} x wall time")
    print("by repeat:", ", ".join(f"{row[2] / row[0]:.2f}" for row in rows), "x CPU time")


def _config(preset: str, seed: int) -> MarlConfig:
    config = parse_config(apply_overrides(read_preset(preset), {"run.seed": seed}))
    assert isinstance(config, MarlConfig)
    return config


def _one(trainer: MarlTrainer, span: range) -> None:
    for iteration in span:
        trainer.collect(iteration)
        trainer.update(iteration)


def _all(group: SeedGroup, span: range) -> None:
    for iteration in span:
        group.collect(dict.fromkeys(range(len(group.trainers)), iteration))
        for trainer in group.trainers:
            trainer.update(iteration)


if __name__ == "__main__":
    main()
