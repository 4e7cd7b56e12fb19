"""Multi-agent PPO on one machine: collect, update, evaluate. Needs neither Ray nor a database, so it can be used from
a script.

All randomness follows from (run.seed, stream, iteration), so a resumed run draws the same numbers.
"""

from collections.abc import Callable, Mapping
from inspect import isclass
from pathlib import Path
from typing import Any

import torch

from training_core.config.marl.algorithms import CustomPpo, MarlPpo
from training_core.config.marl.run import MarlConfig, unseen_steps
from training_core.errors import CheckpointError, ConfigError
from training_core.importing import load_object
from training_core.marl.collecting import Rollout, collect
from training_core.marl.environments.base import Spec, VectorEnvironment
from training_core.marl.environments.keeping import Kept
from training_core.marl.environments.registry import make_environments
from training_core.marl.evaluating import evaluate
from training_core.marl.keeping import continue_episodes, load_episodes, save_episodes
from training_core.marl.learning.learner import PolicyLearner
from training_core.marl.learning.saving import load_actor, load_policy, save_policy
from training_core.marl.patience import Patience
from training_core.marl.records import Collection
from training_core.marl.seats import seats_of
from training_core.marl.stage import Player, Stage
from training_core.seeding import keyed_seed

COLLECTION, WEIGHTS = 0, 1
"""Streams of the seeds of rollouts and of initial weights; evaluation and minibatches have separate streams."""


def device_of(config: MarlConfig) -> torch.device:
    """The device of the networks; environments are stepped on the CPU."""
    return torch.device("cuda" if config.resources.gpus and torch.cuda.is_available() else "cpu")


def refuse_unseen_steps(config: MarlConfig, spec: Spec) -> None:
    """The check of MarlConfig for environments whose config does not determine the length of episodes. Raises ConfigError."""
    steps = config.rollout.steps
    if not config.environment.longest and config.rollout.fresh == "always" and spec.max_steps > steps:
        raise ConfigError({"rollout.fresh": unseen_steps(steps, spec.max_steps)})


def learner_class(algorithm: MarlPpo) -> type[PolicyLearner]:
    """The learner's class: Troupe's, or a custom one by import path. Raises ConfigError."""
    if not isinstance(algorithm, CustomPpo):
        return PolicyLearner
    found = load_object(algorithm.path, "algorithm.path")
    if not (isclass(found) and issubclass(found, PolicyLearner)):
        text = f"{algorithm.path} is not a subclass of PolicyLearner of training_core/marl/learning/learner.py; derive it from that class"
        raise ConfigError({"algorithm.path": text})
    return found


class MarlTrainer:
    """Policies, their learners, and their environments."""

    def __init__(
        self, config: MarlConfig, make: Callable[[Any, int], VectorEnvironment] = make_environments
    ) -> None:
        self.config = config
        self._make = make
        self.device = device_of(config)
        environment = make(config.environment, config.rollout.environments)
        self.spec = environment.spec
        refuse_unseen_steps(config, self.spec)
        seats = seats_of(config, self.spec)
        seed = config.run.seed
        self.learners = {
            name: learner_class(config.algorithm)(
                config.policies[name],
                config.algorithm,
                seats,
                name,
                self.spec,
                config.environment.reward,
                keyed_seed(seed, WEIGHTS, place),
                self.device,
            )
            for place, name in enumerate(seats)
        }
        self.players = {
            name: Player(learner.seats, learner.actor, learner.head, self.device)
            for name, learner in self.learners.items()
        }
        self._stage = Stage(environment, self.players)
        self._evaluation: Stage | None = None
        self._rollout: Rollout | None = None
        self._kept: Kept | None = None
        """Episodes of a checkpoint, until the next rollout continues them."""
        self._patience = Patience(config.run.failure_patience)

    def collect(self, iteration: int) -> Collection:
        """Play rollout.steps steps of all environments, on which `update` trains. Iterations count from 1.

        Raises EnvironmentFailure if there are only failures; see Patience.
        """
        settings = self.config.rollout
        if not (self.goes_on and self._continued()):
            self._stage.reset(keyed_seed(self.config.run.seed, COLLECTION, iteration, 0) % 2**31)
            for learner in self.learners.values():
                learner.remember(None)
        generator = torch.Generator().manual_seed(keyed_seed(self.config.run.seed, COLLECTION, iteration, 1))
        noise = {
            name: player.head.noise((settings.steps, settings.environments, player.seats.count), generator)
            for name, player in self.players.items()
        }
        kept = {name: learner.kept(settings.steps) for name, learner in self.learners.items()}
        rollout, played = collect(self._stage, settings.steps, noise, kept)
        self._patience.look(rollout, played)
        self._rollout = rollout.to(self.device)
        return Collection(played, settings.samples)

    @property
    def goes_on(self) -> bool:
        """Whether rollouts continue the previous rollout's episodes, which may be longer than a rollout."""
        rollout, longest = self.config.rollout, self.spec.max_steps
        if rollout.fresh == "auto":
            return longest == 0 or longest > rollout.steps
        return rollout.fresh == "never"

    def _continued(self) -> bool:
        """Whether there are episodes to continue: the stage's, or those of the loaded checkpoint."""
        kept, self._kept = self._kept, None
        if kept is not None:
            return continue_episodes(kept, self._stage, self.learners)
        return self._stage.view is not None

    def update(self, iteration: int) -> dict[str, dict[str, float]]:
        """Update on the data of `collect`; return metrics by trained policy. Raises LearnerFailure."""
        assert self._rollout is not None, "call collect() first"
        rollout, self._rollout = self._rollout, None
        return {
            name: self.learners[name].update(rollout, iteration, self.config.run.iterations)
            for name in self.config.trained_policies
        }

    def distributions(self) -> dict[str, list[float]]:
        """Weights and last gradients of the trained policies' networks, by "<policy>/<network>/<kind>/<layer>"."""
        return {
            f"{name}/{key}": numbers
            for name in self.config.trained_policies
            for key, numbers in self.learners[name].distributions().items()
        }

    def evaluate(self, greedy: bool, episodes: int, kept: int = 0) -> Collection:
        """Play the same `episodes` episodes in every evaluation, with the most likely or with sampled actions; record
        `kept` of them step by step.
        """
        count = min(episodes, self.config.rollout.environments)
        if self._evaluation is None or self._evaluation.environment.count != count:
            if self._evaluation is not None:
                self._evaluation.environment.close()
            self._evaluation = Stage(self._make(self.config.environment, count), self.players)
        return evaluate(self._evaluation, self.config.run.seed, greedy, episodes, kept)

    def save(self, folder: Path) -> None:
        """Write one folder per policy, and the unfinished episodes if rollouts continue them. Raises CheckpointError."""
        for name, learner in self.learners.items():
            save_policy(folder / name, learner)
        if self.goes_on:
            save_episodes(folder, self.config, self._stage, self.learners)

    def load(self, folder: Path) -> None:
        """Restore the state of `save`. Raises CheckpointError."""
        if folder.suffix == ".pt":
            raise CheckpointError(
                f"{folder} is a pickle, which could run code on loading; use a checkpoint folder of Troupe, or "
                "train from scratch"
            )
        for name, learner in self.learners.items():
            load_policy(folder / name, learner)
        self._stage.view = None
        self._kept = load_episodes(folder, self.config) if self.goes_on else None

    def load_actors(self, places: Mapping[str, Path]) -> None:
        """Load actors from checkpoints, given a folder per policy; critics and optimisers are unchanged.

        Raises CheckpointError.
        """
        for name, folder in places.items():
            load_actor(folder, self.learners[name])

    def close(self) -> None:
        """Close the environments."""
        self._stage.environment.close()
        if self._evaluation is not None:
            self._evaluation.environment.close()
