"""Multi-agent PPO on one machine: collect, update, evaluate. Needs neither Ray nor a database, so it can be used from
a script.

All randomness follows from (run.seed, stream, iteration), so a resumed run draws the same numbers.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from inspect import isclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from training_core.config.marl import MarlConfig, unreached_ends
from training_core.devices import torch_device
from training_core.errors import CheckpointError, ConfigError, EnvironmentFailure
from training_core.importing import load_object
from training_core.marl.agent_slots import slots_by_policy
from training_core.marl.algorithms.config import CustomPpo, MarlPpo
from training_core.marl.algorithms.registry import MARL_ALGORITHMS
from training_core.marl.checkpoint import (
    continue_episodes,
    load_actor,
    load_episodes,
    load_policy,
    save_episodes,
    save_policy,
)
from training_core.marl.environments.base import Spec, VectorEnvironment
from training_core.marl.environments.episodes import Arrays
from training_core.marl.environments.registry import make_environments
from training_core.marl.evaluation import evaluate
from training_core.marl.learning.learner import PolicyLearner
from training_core.marl.records import Collection, EpisodeResult
from training_core.marl.rollouts import Rollout, collect
from training_core.marl.vector_runner import Actor, VectorRunner, device_of_environment, generator_for
from training_core.seeding import keyed_seed

DEFAULT_ITERATIONS = 3
"""Default of run.failure_patience: a few environments may all fail in one iteration by chance."""


class FailureLimit:
    """The failures of the environments so far."""

    def __init__(self, iterations: int = DEFAULT_ITERATIONS) -> None:
        self._iterations = iterations
        """Consecutive iterations with only failures, after at least one finished episode, after which the run fails."""
        self._remaining = 0
        """Remaining tolerated iterations with only failures."""
        self._failures = 0
        """Failures since the last finished episode."""

    def record(self, rollout: Rollout, episodes: list[EpisodeResult]) -> None:
        """Process an iteration. It has only failures if every environment failed and no episode finished; lost
        workers do not count.

        Raises EnvironmentFailure: immediately if no episode has ever finished, and also if there are so many failures
        over several iterations that each environment must have failed several times.
        """
        failures = [episode.failure for episode in episodes if episode.failure and not episode.failure.lost]
        if any(episode.failure is None for episode in episodes):
            self._remaining, self._failures = self._iterations, 0
        self._failures += len(failures)
        all_failed = bool(rollout.failed.any(0).all()) and len(failures) == len(episodes)
        self._remaining -= all_failed
        many_failures = self._failures >= rollout.failed.shape[1] * (self._iterations + 1)
        if failures and ((all_failed and self._remaining <= 0) or many_failures):
            summary = (
                "every environment failed" if all_failed else f"environments failed {self._failures} times"
            )
            raise EnvironmentFailure(
                f"{summary}, and no episode finished. The first: {failures[0].error}.",
                remedy="Fix the environment, and test it separately before you launch again",
            )


COLLECTION, WEIGHTS = 0, 1
"""Streams of the seeds of rollouts and of initial weights; evaluation and minibatches have separate streams."""
OLD_HOOK = "make_sight"
"""The previous name of PolicyLearner.make_critic_inputs, which custom classes may still define."""


def device_of(config: MarlConfig) -> torch.device:
    """The device of the networks; environments are stepped on the CPU, except those of backend = "torch".

    Raises ConfigError if a GPU is requested and none is visible.
    """
    return torch.device(torch_device(config.resources.gpus, "resources.gpus"))


def check_rollout_length(config: MarlConfig, spec: Spec) -> None:
    """The check of MarlConfig for environments whose config does not determine the length of episodes. Raises ConfigError."""
    steps = config.rollout.steps
    if not config.environment.longest and config.rollout.fresh == "always" and spec.max_steps > steps:
        raise ConfigError({"rollout.fresh": unreached_ends(steps, spec.max_steps)})


def learner_class(algorithm: MarlPpo) -> type[PolicyLearner]:
    """The learner's class: that of the registry, or a custom one by import path. Raises ConfigError."""
    path = algorithm.path if isinstance(algorithm, CustomPpo) else MARL_ALGORITHMS[algorithm.type].learner
    learner = load_object(path, "algorithm.path")
    if not (isclass(learner) and issubclass(learner, PolicyLearner)):
        text = f"{path} is not a subclass of PolicyLearner of training_core/marl/learning/learner.py"
        raise ConfigError({"algorithm.path": text}, remedy="derive it from that class")
    if hasattr(learner, OLD_HOOK):
        text = f"{path} defines {OLD_HOOK}, which is now make_critic_inputs(slots, spec)"
        raise ConfigError({"algorithm.path": text}, remedy="rename it")
    return learner


@dataclass(frozen=True)
class RolloutPlan:
    """The random numbers of one rollout."""

    seed: int
    """Of new episodes."""
    noise: dict[str, Tensor]
    """By policy (T, B, N, A)."""


class MarlTrainer:
    """Policies, their learners, and their environments."""

    def __init__(
        self, config: MarlConfig, make: Callable[[Any, int], VectorEnvironment] = make_environments
    ) -> None:
        self.config = config
        self._make = make
        self.device = device_of(config)
        environment = self.make_environments(config.rollout.environments)
        self.spec = environment.spec
        check_rollout_length(config, self.spec)
        slots = slots_by_policy(config, self.spec)
        seed = config.run.seed
        self.learners = {
            name: learner_class(config.algorithm)(
                config.policies[name],
                config.algorithm,
                slots,
                name,
                self.spec,
                config.environment.reward,
                keyed_seed(seed, WEIGHTS, index),
                self.device,
            )
            for index, name in enumerate(slots)
        }
        self.actors = {
            name: Actor(learner.slots, learner.actor, learner.head, self.device)
            for name, learner in self.learners.items()
        }
        self._runner = VectorRunner(environment, self.actors)
        self._evaluation: VectorRunner | None = None
        self._rollout: Rollout | None = None
        self._saved_episodes: Arrays | None = None
        """Episodes of a checkpoint, until the next rollout continues them."""
        self._failure_limit = FailureLimit(config.run.failure_patience)

    def collect(self, iteration: int) -> Collection:
        """Play rollout.steps steps of all environments, on which `update` trains. Iterations count from 1.

        Raises EnvironmentFailure if there are only failures; see FailureLimit.
        """
        settings, plan = self.config.rollout, self.plan(iteration)
        if not (self.continues_episodes and self._continue_episodes()):
            self._runner.reset(plan.seed)
            for learner in self.learners.values():
                learner.set_memory(None)
        memory_steps = {name: learner.memory_steps(settings.steps) for name, learner in self.learners.items()}
        rollout, ended = collect(self._runner, settings.steps, plan.noise, memory_steps)
        return self.accept(rollout, [episode for _, episode in ended])

    def plan(self, iteration: int) -> "RolloutPlan":
        """The random numbers of an iteration's rollout."""
        settings, seed = self.config.rollout, self.config.run.seed
        generator = generator_for(self._runner.environment)
        generator.manual_seed(keyed_seed(seed, COLLECTION, iteration, 1))
        noise = {
            name: actor.head.noise((settings.steps, settings.environments, actor.slots.count), generator)
            for name, actor in self.actors.items()
        }
        return RolloutPlan(keyed_seed(seed, COLLECTION, iteration, 0) % 2**31, noise)

    def accept(self, rollout: Rollout, episodes: list[EpisodeResult]) -> Collection:
        """Use a rollout with its ended episodes for the next update. Raises EnvironmentFailure as `collect`."""
        self._failure_limit.record(rollout, episodes)
        self._rollout = rollout.to(self.device)
        return Collection(episodes, self.config.rollout.samples)

    def make_environments(self, count: int) -> VectorEnvironment:
        """Environments of the config; those that step on a device are moved to that of the networks."""
        environment = self._make(self.config.environment, count)
        if (device := device_of_environment(environment)) is not None and device != self.device:
            moves: Any = environment
            moves.move(self.device)
        return environment

    @property
    def continues_episodes(self) -> bool:
        """Whether rollouts continue the previous rollout's episodes, which may be longer than a rollout."""
        rollout, longest = self.config.rollout, self.spec.max_steps
        if rollout.fresh == "auto":
            return longest == 0 or longest > rollout.steps
        return rollout.fresh == "never"

    def _continue_episodes(self) -> bool:
        """Whether there are episodes to continue: the runner's, or those of the loaded checkpoint."""
        episodes, self._saved_episodes = self._saved_episodes, None
        if episodes is not None:
            return continue_episodes(episodes, self._runner, self.learners)
        return self._runner.view is not None

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

    def evaluate(self, greedy: bool, episodes: int, recorded: int = 0) -> Collection:
        """Play the same `episodes` episodes in every evaluation, with the most likely or with sampled actions; record
        `recorded` of them step by step.
        """
        count = min(episodes, self.config.rollout.environments)
        if self._evaluation is None or self._evaluation.environment.count != count:
            if self._evaluation is not None:
                self._evaluation.environment.close()
            self._evaluation = VectorRunner(self.make_environments(count), self.actors)
        return evaluate(self._evaluation, self.config.run.seed, greedy, episodes, recorded)

    def save(self, folder: Path) -> None:
        """Write one folder per policy, and the unfinished episodes if rollouts continue them. Raises CheckpointError."""
        for name, learner in self.learners.items():
            save_policy(folder / name, learner)
        if self.continues_episodes:
            save_episodes(folder, self.config, self._runner, self.learners)

    def load(self, folder: Path) -> None:
        """Restore the state of `save`. Raises CheckpointError."""
        if folder.suffix == ".pt":
            raise CheckpointError(
                f"{folder} is a pickle, which could run code on loading",
                remedy="use a checkpoint folder of Troupe, or train from scratch",
            )
        for name, learner in self.learners.items():
            load_policy(folder / name, learner)
        self._runner.view = None
        self._saved_episodes = load_episodes(folder, self.config) if self.continues_episodes else None

    def load_actors(self, folders: Mapping[str, Path]) -> None:
        """Load actors from checkpoints, given a folder per policy; critics and optimisers are unchanged.

        Raises CheckpointError.
        """
        for name, folder in folders.items():
            load_actor(folder, self.learners[name])

    def close(self) -> None:
        """Close the environments."""
        self._runner.environment.close()
        if self._evaluation is not None:
            self._evaluation.environment.close()
