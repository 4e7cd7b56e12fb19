"""Kuhn poker, measured: `python -m tests.benchmarks.kuhn_poker [key=value ...] [--seeds 0 1 2]`.

Trains the preset kuhn_poker once per seed in one process, and prints for every checkpoint the exact value of the game between the two
policies (-0.056 in an equilibrium) and their exploitability: what a best reply wins on average over both chairs, 0.458 for uniform play.
"""

import argparse
import os
import sys
from pathlib import Path

from tests.benchmarks.local_runs import HOME, train
from tests.training_core.llm.environments.kuhn_solver import exploitability, strategy_of, value
from training_core.llm.base_models.tiny import tiny_folder
from training_core.llm.environments.kuhn_poker import KuhnPoker


def main() -> None:
    """Run, measure, print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--home", type=Path, default=HOME)
    parser.add_argument("overrides", nargs="*", metavar="key=value")
    arguments = parser.parse_intermixed_args()
    for seed in arguments.seeds:
        folder = arguments.home / "runs" / f"kuhn_poker-seed-{seed}-{os.getpid()}"
        settings = [f"run.seed={seed}", "checkpoint.every=10", "checkpoint.keep=100", *arguments.overrides]
        train("kuhn_poker", arguments.home, folder, settings)
        base = tiny_folder(KuhnPoker(), arguments.home)
        measure(seed, "base", base, base)
        for checkpoint in sorted((folder / "checkpoints").glob("iteration-*")):
            measure(seed, checkpoint.name[-6:], checkpoint / "first", checkpoint / "second")


def measure(seed: int, step: str, *policies: Path) -> None:
    """Print the figures of two policies, as a row."""
    first, second = (strategy_of(policy, player) for player, policy in enumerate(policies))
    sys.stdout.write(
        f"| {seed} | {step} | {value(first, second):.3f} | {exploitability(first, second):.3f} |\n"
    )
    sys.stdout.flush()


if __name__ == "__main__":
    main()
