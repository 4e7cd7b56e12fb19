"""Environment steps per second of small-network agents, in turns in one run, one thread each.

    make benchmarl                                             # once: BenchMARL in an environment of its own, var/benchmarl
    python -m tests.benchmarks.marl_throughput [environments] [training] [--repeats 5] [--benchmarl var/benchmarl/bin/python]

`environments` steps simple_spread with random actions: native, mpe2's parallel environment, VMAS. `training` collects and updates:
this trainer on native environments, on VMAS and on one environment of mpe2's; BenchMARL on VMAS. Medians over the repeats are
printed, per CPU second and per wall second: on a machine with other load, the former is more exact.
"""

import argparse
import json
import os
import subprocess
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from tests.benchmarks.results import REPEATS, ROOT, Benchmark, Ratio, Side, run_alone
from training_core.config.marl import MarlConfig
from training_core.marl.environments.config import SimpleSpread
from training_core.marl.environments.registry import make_environments
from training_core.marl.trainer import MarlTrainer
from workers.actors.machine import prepare_process

BENCHMARL = ROOT / "var" / "benchmarl" / "bin" / "python"
AGENTS, CYCLES, MOVES = 3, 25, 5
WARM_UP = 2
FIRST, REFERENCE = "mpe2, one parallel environment", "BenchMARL on VMAS, 2 x 256"
"""Sides that the others are compared with."""
SHORT = (
    REFERENCE,
    "this trainer on VMAS, 2 x 256, fp32",
    "this trainer on VMAS, 2 x 256, bf16",
    "this trainer, native, 2 x 256, bf16",
)
"""Trainers of the short set."""
BF16 = {"precision": "bf16"}
SPREAD = {"type": "mpe_simple_spread", "max_cycles": CYCLES}
SIMULATOR = {
    "type": "vmas",
    "scenario": "simple_spread",
    "max_cycles": CYCLES,
    "args": {"n_agents": AGENTS, "obs_agents": True},
}
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
    """One iteration of training: the comparison with BenchMARL."""

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


def paced(act: Callable[[], int]) -> Pace:
    """`act` returns the number of environment steps that it made."""
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

    return paced(act)


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

    return paced(act)


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

    return paced(act)


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
    pace = paced(lambda: act(1 + WARM_UP, shape.iterations))
    trainer.close()
    return pace


def benchmarl(python: Path, shape: Shape, settings: dict[str, str]) -> Pace:
    """BenchMARL in a process of its own."""
    words = json.dumps(vars(shape) | {"max_cycles": CYCLES})
    command = [str(python), "-W", "ignore", str(ROOT / "tests" / "benchmarks" / "benchmarl_step.py"), words]
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
    """Environments that step with random actions, by name."""
    return {
        "mpe2, one parallel environment": lambda: mpe2(3_000),
        "native, 64 environments": lambda: native(64, 200_000),
        "native, 1,024 environments": lambda: native(1024, 1_000_000),
        "VMAS, 1,024 environments": lambda: vmas(1024, 100_000),
    }


def training_sides(python: Path) -> dict[str, Callable[[], Pace]]:
    """Trainers, by name; the first two are BenchMARL's."""
    shape = Shape()
    return {
        REFERENCE: lambda: benchmarl(python, shape, {}),
        f"{REFERENCE}, freed memory kept": lambda: benchmarl(python, shape, KEEPS_MEMORY),
        "this trainer on VMAS, 2 x 256, fp32": lambda: training(SIMULATOR, shape, {}),
        "this trainer on VMAS, 2 x 256, bf16": lambda: training(SIMULATOR, shape, BF16),
        "this trainer on VMAS, 2 x 256, bf16, compiled": lambda: training(
            SIMULATOR, shape, BF16 | {"compile": True}
        ),
        "this trainer, native, 2 x 256, fp32": lambda: training(SPREAD, shape, {}),
        "this trainer, native, 2 x 256, bf16": lambda: training(SPREAD, shape, BF16),
        "this trainer, one mpe2 environment, 2 x 128, minibatches of 255": lambda: training(
            SPREAD | {"backend": "mpe2"}, SINGLE, {}
        ),
        "this trainer, native, 2 x 128, fp32": lambda: training(SPREAD, MARLKIT, {}),
        "this trainer, native, 2 x 128, bf16": lambda: training(SPREAD, replace(MARLKIT, iterations=8), BF16),
    }


def environments(*, small: bool = False) -> Benchmark:
    """Environments compared with mpe2's."""
    tiny = {FIRST: lambda: mpe2(30), "native, 64 environments": lambda: native(64, 640)}
    return benchmark(tiny if small else environment_sides(), FIRST)


def training_compared(
    *, small: bool = False, python: Path = BENCHMARL, names: Collection[str] = SHORT
) -> Benchmark:
    """Trainers compared with BenchMARL."""
    tiny = Shape(environments=2, steps=CYCLES, minibatch=CYCLES, hidden=8, iterations=1)
    sides = training_sides(python)
    if small:
        sides[SHORT[1]] = lambda: training(SIMULATOR, tiny, {})
    chosen = {name: side for name, side in sides.items() if name in (SHORT[:2] if small else names)}
    lacks = (
        "" if python.exists() else f"BenchMARL is not installed ({python} does not exist); run make benchmarl"
    )
    return replace(benchmark(chosen, REFERENCE), missing=lacks)


def benchmark(sides: Mapping[str, Callable[[], Pace]], first: str) -> Benchmark:
    """Sides compared with the first."""
    return Benchmark(
        about="environment steps of simple_spread, three agents, one thread",
        units=dict.fromkeys(sides, "steps/CPU s") | {f"{name}, by the clock": "steps/s" for name in sides},
        open_sides=lambda: open_sides(sides),
        ratios=tuple(Ratio(f"{name} / {first}", name, first) for name in sides if name != first),
        settings={"agents": AGENTS, "steps of an episode": CYCLES, "training": asdict(Shape())},
        foreign=frozenset(name for name in sides if not name.startswith(("native", "this trainer"))),
    )


@contextmanager
def open_sides(sides: Mapping[str, Callable[[], Pace]]) -> Iterator[Mapping[str, Side]]:
    """Sides whose figures are steps per CPU second and per second; each warms up by itself."""
    prepare_process(1)
    yield {name: lambda name=name, side=side: rates(name, side()) for name, side in sides.items()}


def rates(name: str, pace: Pace) -> Mapping[str, float]:
    """The figures of one turn."""
    return {name: pace.steps / pace.cpu, f"{name}, by the clock": pace.steps / pace.wall}


def main(words: Sequence[str] | None = None) -> None:
    """Print the figures of the parts."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("parts", nargs="*", metavar="part", help="environments, training; default: both")
    parser.add_argument("--repeats", type=int, default=REPEATS)
    parser.add_argument("--benchmarl", type=Path, default=BENCHMARL)
    arguments = parser.parse_args(words)
    python = arguments.benchmarl
    parts = {
        "environments": environments,
        "training": lambda: training_compared(python=python, names=training_sides(python)),
    }
    if unknown := set(arguments.parts) - set(parts):
        parser.error(f"no such part: {', '.join(sorted(unknown))}; parts are {', '.join(parts)}")
    for part in arguments.parts or parts:
        run_alone(parts[part](), part, arguments.repeats)


if __name__ == "__main__":
    main()
