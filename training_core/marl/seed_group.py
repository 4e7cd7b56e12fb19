"""Training of several seeds of one config in one process on CPU cores: one MarlTrainer per seed.

The seeds' worlds are stepped as one vector of worlds, and gradients are analytic (AnalyticGradients in learning/learner.py).
Networks, optimisers, evaluations and checkpoints are those of each seed's own trainer, and so are its numbers, to fp32
rounding.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from training_core.config.marl import MarlConfig, reason_for_separate_runs
from training_core.errors import ConfigError
from training_core.marl.learning.learner import AnalyticMlp
from training_core.marl.networks.base import Memory
from training_core.marl.records import Collection, EpisodeResult
from training_core.marl.rollouts import FinalStates, Rollout, collect, map_tensors
from training_core.marl.trainer import MarlTrainer
from training_core.marl.vector_runner import Actor, VectorRunner


class SeedActors:
    """The actors of several seeds as one network: each computes the rows of its own worlds."""

    has_memory = False
    chunk_length = 1

    def __init__(self, networks: Sequence[AnalyticMlp], worlds: int) -> None:
        self._networks, self._worlds = networks, worlds

    def start(self, environments: int) -> Memory:
        """No memory."""
        return ()

    def step(self, x: Tensor, memory: Memory) -> tuple[Tensor, Memory]:
        """(S * B, N, D) -> (S * B, N, O)."""
        parts = zip(self._networks, x.split(self._worlds), strict=True)
        return torch.cat([network.outputs(own) for network, own in parts]), memory


class SeedGroup:
    """The trainers of several seeds of one config."""

    def __init__(self, configs: Sequence[MarlConfig]) -> None:
        """`configs` differ in `run` only. Raises ConfigError if they cannot be trained together."""
        self.config = configs[0]
        if reason := reason_for_separate_runs(self.config):
            raise ConfigError({"run.seed": f"several seeds in one process: {reason}"})
        self.trainers = [MarlTrainer(config) for config in configs]
        self._networks = [_networks_of(trainer) for trainer in self.trainers]
        self._runner: VectorRunner | None = None
        self._members: tuple[int, ...] = ()

    def collect(self, iterations: Mapping[int, int]) -> dict[int, Collection]:
        """Play one iteration of the trainers with these indices, each of its own number. Raises EnvironmentFailure."""
        played = self.play(iterations)
        return {index: self.trainers[index].accept(*own) for index, own in played.items()}

    def play(self, iterations: Mapping[int, int]) -> dict[int, tuple[Rollout, list[EpisodeResult]]]:
        """The same, for `accept` of the trainers."""
        members, settings = tuple(iterations), self.config.rollout
        runner, worlds = self._runner_of(members), settings.environments
        plans = [self.trainers[index].plan(iteration) for index, iteration in iterations.items()]
        environment: Any = runner.environment
        runner.start_from(environment.reset_seeds([plan.seed for plan in plans], worlds))
        names = list(runner.actors)
        noise = {name: torch.cat([plan.noise[name] for plan in plans], dim=1) for name in names}
        rollout, ended = collect(runner, settings.steps, noise, dict.fromkeys(names, ()))
        return {
            index: _of_seed(rollout, ended, slice(begin, begin + worlds))
            for index, begin in zip(members, range(0, len(members) * worlds, worlds), strict=True)
        }

    def close(self) -> None:
        """Close the environments."""
        for trainer in self.trainers:
            trainer.close()
        self._runner = None

    def _runner_of(self, members: tuple[int, ...]) -> VectorRunner:
        """Worlds of these trainers, and their actors."""
        if self._runner is None or members != self._members:
            self._members, worlds = members, self.config.rollout.environments
            actors: dict[str, Actor] = {}
            for name, actor in self.trainers[0].actors.items():
                networks: Any = SeedActors([self._networks[i][name] for i in members], worlds)
                actors[name] = replace(actor, network=networks)
            self._runner = VectorRunner(self.trainers[0].make_environments(len(members) * worlds), actors)
        return self._runner


def _networks_of(trainer: MarlTrainer) -> dict[str, AnalyticMlp]:
    """The actors of a trainer by policy. Raises ConfigError if its learners have no analytic gradients."""
    networks = {}
    for name, learner in trainer.learners.items():
        if learner.analytic_gradients is None:
            raise ConfigError({f"policies.{name}": "several seeds in one process: no analytic gradients"})
        networks[name] = learner.analytic_gradients.actor
    return networks


def _of_seed(
    rollout: Rollout, ended: Sequence[tuple[int, EpisodeResult]], rows: slice
) -> tuple[Rollout, list[EpisodeResult]]:
    """The steps and ended episodes of the worlds `rows` of a seed."""
    steps: Rollout = map_tensors(lambda part: part[:, rows], replace(rollout, final_states=[]))
    steps.final_states = [_finals_of(part, rows) for part in rollout.final_states]
    return steps, [episode for world, episode in ended if rows.start <= world < rows.stop]


def _finals_of(finals: FinalStates, rows: slice) -> FinalStates:
    own = (finals.rows >= rows.start) & (finals.rows < rows.stop)
    observations = {name: part[own] for name, part in finals.observations.items()}
    state = None if finals.state is None else finals.state[own]
    return FinalStates(finals.step, finals.rows[own] - rows.start, observations, state)
