"""Environment steps per second of small-network agents, side by side in one run, one thread each.

    make benchmarl                                             # once: BenchMARL in an environment of its own, var/benchmarl
    python -m tests.benchmarks.marl_throughput [environments] [training] [--repeats 3] [--benchmarl var/benchmarl/bin/python]

`environments` steps simple_spread with random actions: native, mpe2's parallel environment, VMAS. `training` collects and updates:
this trainer on native environments, on VMAS and on one environment of mpe2's; BenchMARL on VMAS. Sides take turns; medians over
the repeats are printed, per wall second and per CPU second: on a machine that others use, the latter says more. A clock never
fails a test run.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch

from training_core.config.marl.run import MarlConfig
from training_core.marl.environments.factory import make_environments
from training_core.marl.environments.mpe.config import SimpleSpread
from training_core.marl.trainer import MarlTrainer
from workers.actors.machine import prepare_process

ROOT = Path(__file__).resolve().parents[2]
BENCHMARL = ROOT / "var" / "benchmarl" / "bin" / "python"
AGENTS, CYCLES, MOVES = 3, 25, 5
WARM_UP = 2
KEEPS_MEMORY = {"MALLOC_TRIM_THRESHOLD_": str(256 * 1024**2), "MALLOC_MMAP_THRESHOLD_": str(64 * 1024**2)}
"""What our workers' processes set by themselves (workers/actors/machine.py), for BenchMARL's."""


@dataclass(frozen=True)
class Pace:
    """What was done, and how long it took."""

    steps: int
    wall: float
    cpu: float


@dataclass(frozen=True)
class Shape:
    """One iteration of training: as the issue's comparison with BenchMARL has it."""

    environments: int = 64
    steps: int = 100
    epochs: int = 4
    minibatch: int = 1600
    """Environment steps; each has a sample of every agent."""
    hidden: int = 256
    iterations: int = 3

    @property
    def frames(self) -> int:
        """Environment steps of an iteration."""
        return self.environments * self.steps


MARLKIT = Shape(hidden=128, minibatch=1600, iterations=6)
"""Networks of MARLKit's size, with many environments."""
SINGLE = Shape(environments=1, steps=256, minibatch=85, hidden=128, iterations=4)
"""MARLKit's defaults: one environment, 256 steps, minibatches of 256 samples."""


def timed(act: Callable[[], int]) -> Pace:
    """`act` says how many environment steps it made."""
    wall, cpu = time.perf_counter(), time.process_time()
    steps = act()
    return Pace(steps, time.perf_counter() - wall, time.process_time() - cpu)


def native(count: int, steps: int) -> Pace:
    """`count` environments of ours."""
    environment = make_environments(SimpleSpread(), count)
    random = np.random.default_rng(0)
    actions = [{"agents": random.integers(0, MOVES, (count, AGENTS))} for _ in range(100)]
    environment.reset(0)

    def act() -> int:
        for step in range(steps // count):
            environment.step(actions[step % 100])
        return steps // count * count

    return timed(act)


def mpe2(steps: int) -> Pace:
    """One parallel environment of the package."""
    from mpe2 import simple_spread_v3

    environment = simple_spread_v3.parallel_env(N=AGENTS, max_cycles=CYCLES)
    environment.reset(seed=0)
    random = np.random.default_rng(0)
    actions = [
        dict(zip(environment.agents, row, strict=True)) for row in random.integers(0, MOVES, (100, AGENTS))
    ]

    def act() -> int:
        for step in range(steps):
            environment.step(actions[step % 100])
            if not environment.agents:
                environment.reset()
        return steps

    return timed(act)


def vmas(count: int, steps: int) -> Pace:
    """`count` environments of VMAS."""
    import vmas as package

    environment = package.make_env(
        "simple_spread", num_envs=count, continuous_actions=False, n_agents=AGENTS, seed=0
    )
    environment.reset()
    torch.manual_seed(0)
    actions = [list(torch.randint(0, MOVES, (AGENTS, count, 1))) for _ in range(100)]

    def act() -> int:
        for step in range(1, steps // count + 1):
            environment.step(actions[step % 100])
            if step % CYCLES == 0:
                environment.reset()
        return steps // count * count

    return timed(act)


def config(environment: dict[str, Any], shape: Shape, learner: dict[str, Any]) -> MarlConfig:
    """MAPPO with a plain tanh network and no identities, as the other side has it."""
    return MarlConfig.model_validate(
        {
            "run": {"name": "throughput", "iterations": 1000},
            "team": {"roles": {"agents": {"policy": "shared"}}},
            "policies": {
                "shared": {
                    "network": {"type": "mlp", "hidden_dim": shape.hidden, "identity_dim": 0},
                    "learner": {"epochs": shape.epochs, "minibatch_size": shape.minibatch * AGENTS} | learner,
                }
            },
            "environment": environment,
            "algorithm": {"type": "mappo"},
            "rollout": {"environments": shape.environments, "steps": shape.steps},
        }
    )


def training(environment: dict[str, Any], shape: Shape, learner: dict[str, Any]) -> Pace:
    """Collect and update, after iterations that warm up."""
    trainer = MarlTrainer(config(environment, shape, learner))

    def act(first: int, count: int) -> int:
        for iteration in range(first, first + count):
            trainer.collect(iteration)
            trainer.update(iteration)
        return count * shape.frames

    act(1, WARM_UP)
    pace = timed(lambda: act(1 + WARM_UP, shape.iterations))
    trainer.close()
    return pace


def benchmarl(python: Path, shape: Shape, settings: dict[str, str]) -> Pace:
    """BenchMARL in a process of its own."""
    said = json.dumps(vars(shape) | {"max_cycles": CYCLES})
    command = [str(python), "-W", "ignore", str(ROOT / "tests" / "benchmarks" / "benchmarl_step.py"), said]
    answer = subprocess.run(
        command,
        check=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env=os.environ | {"OMP_NUM_THREADS": "1"} | settings,
    )
    figures = json.loads(answer.stdout.splitlines()[-1])
    return Pace(figures["frames"], figures["wall"], figures["cpu"])


def environment_sides() -> dict[str, Callable[[], Pace]]:
    """What steps, by name; the first is what the others are compared with."""
    return {
        "mpe2, one parallel environment": lambda: mpe2(3_000),
        "native, 64 environments": lambda: native(64, 200_000),
        "native, 1,024 environments": lambda: native(1024, 1_000_000),
        "VMAS, 1,024 environments": lambda: vmas(1024, 100_000),
    }


def training_sides(python: Path) -> dict[str, Callable[[], Pace]]:
    """What learns, by name."""
    shape, spread = Shape(), {"type": "mpe_simple_spread", "max_cycles": CYCLES}
    simulator = {
        "type": "vmas",
        "scenario": "simple_spread",
        "max_cycles": CYCLES,
        "args": {"n_agents": AGENTS, "obs_agents": True},
    }
    bf16 = {"precision": "bf16"}
    sides: dict[str, Callable[[], Pace]] = {}
    if python.exists():
        sides["BenchMARL on VMAS, 2 x 256"] = lambda: benchmarl(python, shape, {})
        sides["BenchMARL on VMAS, 2 x 256, freed memory kept"] = lambda: benchmarl(
            python, shape, KEEPS_MEMORY
        )
    sides |= {
        "this trainer on VMAS, 2 x 256, fp32": lambda: training(simulator, shape, {}),
        "this trainer on VMAS, 2 x 256, bf16": lambda: training(simulator, shape, bf16),
        "this trainer on VMAS, 2 x 256, bf16, compiled": lambda: training(
            simulator, shape, bf16 | {"compile": True}
        ),
        "this trainer, native, 2 x 256, fp32": lambda: training(spread, shape, {}),
        "this trainer, native, 2 x 256, bf16": lambda: training(spread, shape, bf16),
        "this trainer, one mpe2 environment, 2 x 128, minibatches of 255": lambda: training(
            spread | {"backend": "mpe2"}, SINGLE, {}
        ),
        "this trainer, native, 2 x 128, fp32": lambda: training(spread, MARLKIT, {}),
        "this trainer, native, 2 x 128, bf16": lambda: training(spread, replace(MARLKIT, iterations=8), bf16),
    }
    return sides


def report(title: str, sides: dict[str, Callable[[], Pace]], repeats: int) -> Iterable[str]:
    """Sides in turns; a table in Markdown, every row beside the first."""
    paces: dict[str, list[Pace]] = {name: [] for name in sides}
    for _ in range(repeats):
        for name, side in sides.items():
            paces[name].append(side())
    rows = {
        name: (
            median(each.steps / each.wall for each in found),
            median(each.steps / each.cpu for each in found),
        )
        for name, found in paces.items()
    }
    first = next(iter(rows.values()))
    yield f"| {title} | steps per second | steps per CPU second | times the first, by CPU |"
    yield "|---|---:|---:|---:|"
    for name, (wall, cpu) in rows.items():
        yield f"| {name} | {wall:,.0f} | {cpu:,.0f} | {cpu / first[1]:.2f} |"


def main(words: Sequence[str] | None = None) -> None:
    """Print tables."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("parts", nargs="*", default=["environments", "training"], metavar="part")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--benchmarl", type=Path, default=BENCHMARL)
    arguments = parser.parse_args(words)
    prepare_process(1)
    parts = {"environments": environment_sides(), "training": training_sides(arguments.benchmarl)}
    for part in arguments.parts:
        for line in report(part, parts[part], arguments.repeats):
            sys.stdout.write(line + "\n")
        sys.stdout.write("\n")


if __name__ == "__main__":
    main()
