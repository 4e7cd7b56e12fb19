"""Checks of runs of small networks: algorithm, environment, one played step, networks."""

from collections.abc import Iterator
from functools import partial

import numpy as np

from training_core.config.marl import MarlConfig
from training_core.errors import EnvironmentFailure
from training_core.marl.environments.base import (
    Actions,
    Choices,
    Continuous,
    Flags,
    RoleSpec,
    SeveralChoices,
    VectorEnvironment,
    View,
)
from training_core.marl.environments.registry import make_environments
from training_core.marl.trainer import MarlTrainer, check_rollout_length, learner_class
from workers.actors.machine import on_visible_devices
from workers.preflight.checks import Doubtful, Step, Surroundings, Unchecked, shared_steps

COUNT = 2
"""Environments of the played step."""
LARGE = 20_000_000
"""Number of weights of a first layer above which the check warns."""


def steps(config: MarlConfig, around: Surroundings) -> Iterator[Step]:
    """All checks of a config, cheap ones first."""
    table = _Table(config)
    yield from shared_steps(config, around)
    yield "algorithm", partial(_algorithm, config)
    yield "environment", table.construct
    yield "one played step", table.play
    yield "networks", table.networks


class _Table:
    """The environments in which the step is played."""

    def __init__(self, config: MarlConfig) -> None:
        self._config = config
        self._environments: VectorEnvironment | None = None

    def construct(self) -> str:
        """Import and construct environments."""
        self._environments = make_environments(self._config.environment, COUNT)
        check_rollout_length(self._config, self._environments.spec)
        agents = sum(len(role.agents) for role in self._environments.spec.roles.values())
        return f"the environment {self._config.environment.type} was constructed, with {agents} agent{'s' * (agents != 1)}"

    def play(self) -> str:
        """Play one step with random actions. Raises EnvironmentFailure."""
        environments = self._constructed()
        view = environments.reset(self._config.run.seed)
        random = np.random.default_rng(self._config.run.seed)
        actions = {
            role: _random_actions(spec, view, role, random) for role, spec in environments.spec.roles.items()
        }
        transition = environments.step(actions)
        for failure in transition.failures.values():
            raise EnvironmentFailure(failure.error.rstrip("."), remedy="correct the environment")
        return f"rewards: {', '.join(f'{role} {rewards[0].sum():g}' for role, rewards in transition.rewards.items())}"

    def networks(self) -> str:
        """Construct the policies' networks and learners."""
        self._constructed()
        short = self._config.rollout.model_copy(update={"environments": COUNT})
        trainer = MarlTrainer(on_visible_devices(self._config).model_copy(update={"rollout": short}))
        sizes = {
            name: sum(parameter.numel() for parameter in learner.actor.parameters())
            for name, learner in trainer.learners.items()
        }
        trainer.close()
        self._constructed().close()
        _check_first_layers(trainer)
        return f"parameters of actors: {', '.join(f'{name} {size:,}' for name, size in sizes.items())}"

    def _constructed(self) -> VectorEnvironment:
        if self._environments is None:
            raise Unchecked("the environment could not be constructed")
        return self._environments


def _check_first_layers(trainer: MarlTrainer) -> None:
    """Raises Doubtful for a multi-layer perceptron whose first layer is large because of its observations, such as pictures."""
    for name, learner in trainer.learners.items():
        inputs = max(learner.slots.observation_dim, learner.critic_inputs.inputs)
        network = trainer.config.policies[name].network
        weights = inputs * network.hidden_dim
        kind = "cnn" if learner.slots.pictures else "custom"
        if network.type == "mlp" and weights > LARGE:
            raise Doubtful(
                f"{inputs:,} inputs give {name} a first layer of {weights:,} weights",
                remedy=f'make the observations smaller, or set policies.{name}.network.type = "{kind}"',
            )


def _algorithm(config: MarlConfig) -> str:
    learner_class(config.algorithm)
    return f"the algorithm {config.algorithm.type} was loaded"


def _random_actions(spec: RoleSpec, view: View, role: str, random: np.random.Generator) -> Actions:
    """Permitted actions of a role's agents in all environments."""
    count = len(view.observations[role])
    if isinstance(spec.actions, Continuous):
        low, high = np.array(spec.actions.low), np.array(spec.actions.high)
        drawn = random.uniform(low, high, (count, len(spec.agents), len(low)))
        return drawn.astype(np.float32)
    return _random_choices(spec.actions, (count, len(spec.agents)), view.masks.get(role), random)


def _random_choices(
    kind: Choices | SeveralChoices, shape: tuple[int, int], mask: Flags | None, random: np.random.Generator
) -> Actions:
    """(B, n), or (B, n, K) from several sets. Masks concatenate the choices of the sets."""
    sets, start = [], 0
    for size in kind.counts:
        weights = random.random((*shape, size))
        if mask is not None:
            weights = np.where(mask[..., start : start + size], weights, -1.0)
        sets.append(weights.argmax(-1).astype(np.int64))
        start += size
    return np.stack(sets, -1) if isinstance(kind, SeveralChoices) else sets[0]
