"""Does each side of a game learn? `python -m tests.benchmarks.marl_sides [PRESET] [key=value ...] [--seeds 0]`.

Trains a preset whose roles have policies of their own, then lets every policy play as trained against the others as drawn by lot
(all actions alike), and the other way round; nobody learns while that is played. Where both sides learn, what they earn against
each other need not rise, for each makes it harder for the other. Prints mean returns by role (sums over a
role's agents, actions drawn) with their standard errors, and CPU seconds of training. Nothing here fails.
"""

import argparse
import time
from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from statistics import mean, stdev

import torch

from training_core.config.files import load_config, parse_overrides
from training_core.config.marl import MarlConfig
from training_core.marl.environments.registry import make_environments
from training_core.marl.evaluation import evaluate
from training_core.marl.networks.agents import make_network
from training_core.marl.trainer import MarlTrainer
from training_core.marl.vector_runner import Actor, VectorRunner

Returns = dict[str, list[float]]
"""Of episodes, by role."""


def trained(config: MarlConfig) -> tuple[MarlTrainer, int, float]:
    """A trainer after its whole run, environment steps, and CPU seconds."""
    trainer, steps, began = MarlTrainer(config), 0, time.process_time()
    for iteration in range(1, config.run.iterations + 1):
        steps += trainer.collect(iteration).steps
        trainer.update(iteration)
    return trainer, steps, time.process_time() - began


def by_lot(actor: Actor, config: MarlConfig) -> Actor:
    """The same seats, played by a network whose last layer is zero: every choice is as likely as any other."""
    network = config.policies[actor.slots.policy].network
    slots = actor.slots
    outputs, inputs = actor.head.outputs, slots.observation_dim
    return replace(actor, network=make_network(network, inputs, outputs, slots.count, 0.0, slots.pictures))


def cross_play(trainer: MarlTrainer, episodes: int) -> dict[tuple[str, ...], Returns]:
    """By the policies that play as trained, all others by lot: the same episodes for each."""
    policies, environments = tuple(trainer.actors), min(episodes, 256)
    found = {}
    for plays in product((False, True), repeat=len(policies)):
        able = tuple(name for name, as_trained in zip(policies, plays, strict=True) if as_trained)
        actors = {
            name: actor if name in able else by_lot(actor, trainer.config)
            for name, actor in trainer.actors.items()
        }
        runner = VectorRunner(make_environments(trainer.config.environment, environments), actors)
        played = evaluate(runner, trainer.config.run.seed, False, episodes, 0).episodes
        found[able] = {role: [episode.rewards[role] for episode in played] for role in trainer.spec.roles}
        runner.environment.close()
    return found


def table(found: dict[tuple[str, ...], Returns]) -> str:
    """A line of Markdown for each."""
    roles = list(next(iter(found.values())))
    lines = ["| play as trained | " + " | ".join(roles) + " |", "|---|" + "---:|" * len(roles)]
    for able, returns in found.items():
        cells = [
            f"{mean(earned):.2f} ± {stdev(earned) / len(earned) ** 0.5:.2f}" for earned in returns.values()
        ]
        lines.append(f"| {', '.join(able) or 'nobody'} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main(words: Sequence[str] | None = None) -> None:
    """See the head of this file."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("words", nargs="*", default=[], metavar="PRESET | key=value")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--episodes", type=int, default=1024)
    options = parser.parse_args(words)
    torch.set_num_threads(1)
    overrides = [word for word in options.words if "=" in word]
    presets = [word for word in options.words if "=" not in word] or ["tag_mappo"]
    for preset, seed in product(presets, options.seeds):
        config = load_config(preset, parse_overrides([*overrides, f"run.seed={seed}"]))
        assert isinstance(config, MarlConfig), f"{preset} is no preset of small networks"
        trainer, steps, seconds = trained(config)
        print(f"{preset} {config.environment.type} seed {seed}: {steps:,} steps, {seconds:.0f} CPU s")
        print(table(cross_play(trainer, options.episodes)), flush=True)
        trainer.close()


if __name__ == "__main__":
    main()
