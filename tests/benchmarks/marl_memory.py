"""Networks with memory against one without: `python -m tests.benchmarks.marl_memory [--networks gru mlp] [--seeds 0 1 2]`.

recall_cue: four cues, one of them at the first step of nine, the choice at the last. Trains the presets
recall_<algorithm>_<network> and, for comparison, the same with an MLP, until no choice is wrong or the preset's iterations are over.
Prints the share of right choices then (greedy, 256 episodes of two agents), the iteration at which it was 0.95 for the first
time, and CPU seconds with evaluation left out.
"""

import argparse
import sys
import time
from collections.abc import Sequence

import torch

from training_core.config.files import load_config
from training_core.config.marl import MarlConfig
from training_core.marl.trainer import MarlTrainer

NETWORKS = ("gru", "lstm", "transformer", "mlp")
ALGORITHMS = ("mappo", "ippo")
EPISODES, ENOUGH = 256, 0.95


def main(words: Sequence[str] | None = None) -> None:
    """Train each and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--networks", nargs="+", default=NETWORKS, choices=NETWORKS)
    parser.add_argument("--algorithms", nargs="+", default=ALGORITHMS, choices=ALGORITHMS)
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    arguments = parser.parse_args(words)
    torch.set_num_threads(1)
    sys.stdout.write(
        "| network | algorithm | seed | right after training | 0.95 at iteration | CPU seconds |\n"
        "|---|---|---|---|---|---|\n"
    )
    for network in arguments.networks:
        for algorithm in arguments.algorithms:
            for seed in arguments.seeds:
                shares, seconds = learn(config_of(network, algorithm, seed))
                reached = next((at for at, share in shares if share >= ENOUGH), None)
                cells = (
                    network,
                    algorithm,
                    seed,
                    f"{shares[-1][1]:.3f}",
                    reached or "never",
                    f"{seconds:.0f}",
                )
                sys.stdout.write("| " + " | ".join(map(str, cells)) + " |\n")
                sys.stdout.flush()


def config_of(network: str, algorithm: str, seed: int) -> MarlConfig:
    """A preset; the MLP takes the longest one's place."""
    if network == "mlp":
        tree = load_config(f"recall_{algorithm}_lstm", {"run.seed": seed}).model_dump()
        tree["policies"]["agents"]["network"] = {"type": "mlp", "hidden_dim": 64}
        return MarlConfig.model_validate(tree)
    config = load_config(f"recall_{algorithm}_{network}", {"run.seed": seed})
    assert isinstance(config, MarlConfig)
    return config


def learn(config: MarlConfig, every: int = 5) -> tuple[list[tuple[int, float]], float]:
    """Train until no choice is wrong, or to the end; shares of right choices by iteration, and CPU seconds of training."""
    trainer = MarlTrainer(config)
    shares, seconds = [], 0.0
    for iteration in range(1, config.run.iterations + 1):
        begin = time.process_time()
        trainer.collect(iteration)
        trainer.update(iteration)
        seconds += time.process_time() - begin
        if iteration % every == 0 or iteration == config.run.iterations:
            shares.append((iteration, right(trainer)))
            if shares[-1][1] == 1.0:
                break
    trainer.close()
    return shares, seconds


def right(trainer: MarlTrainer) -> float:
    """The share of right choices, greedy."""
    played = trainer.evaluate(True, EPISODES).episodes
    agents = len(trainer.spec.roles["agents"].agents)
    return sum(episode.rewards["agents"] for episode in played) / len(played) / agents


if __name__ == "__main__":
    main()
