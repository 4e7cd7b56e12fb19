"""Native multi-particle environments: transitions, observations and rewards are mpe2's, from the same states with the same actions."""

import numpy as np
import pytest

from tests.training_core.marl.environments.mpe.mpe2_twin import Twins, drawn_actions, equal, of_agents
from training_core.marl.environments.config import (
    NativeMpe,
    SimpleAdversary,
    SimplePush,
    SimpleReference,
    SimpleSpread,
    SimpleTag,
)

SIZES: list[NativeMpe] = [
    SimpleSpread(),
    SimpleSpread(num_agents=5, local_ratio=0.2),
    SimpleSpread(num_agents=1, local_ratio=1.0),
    SimpleTag(),
    SimpleTag(num_good=3, num_adversaries=2, num_obstacles=0),
    SimpleAdversary(),
    SimpleAdversary(num_agents=4),
    SimplePush(),
    SimpleReference(),
    SimpleReference(local_ratio=0.9),
]


def name(section: NativeMpe) -> str:
    return (
        section.type.removeprefix("mpe_")
        + "-"
        + "-".join(map(str, section.model_dump(exclude={"type"}, exclude_defaults=True).values()))
    )


@pytest.mark.extended
@pytest.mark.parametrize("continuous", [False, True], ids=["discrete", "continuous"])
@pytest.mark.parametrize("section", SIZES, ids=name)
def test_every_step_is_that_of_mpe2(section: NativeMpe, continuous: bool) -> None:
    twins = Twins(section.model_copy(update={"continuous_actions": continuous}), count=10)
    random = np.random.default_rng(0)
    twins.native.reset(seed=1)
    for _ in range(2 * section.max_cycles + 3):
        twins.step(drawn_actions(twins.native, random))


@pytest.mark.parametrize("section", SIZES, ids=name)
def test_crowds_are_pushed_apart_as_in_mpe2(section: NativeMpe) -> None:
    """Everyone in a corner, so that every contact there can be is there."""
    twins = Twins(section, count=10)
    random = np.random.default_rng(0)
    twins.native.reset(seed=1)
    for _ in range(10):
        twins.native.world.positions *= 0.1
        twins.native.world.update_relative()
        twins.step(drawn_actions(twins.native, random))


@pytest.mark.parametrize("section", SIZES, ids=name)
def test_an_episode_is_that_of_mpe2(section: NativeMpe) -> None:
    """One start, then nothing is copied: small differences may not grow."""
    twins = Twins(section, count=1)
    first = twins.native.reset(seed=3)
    twins.copy(0)
    random = np.random.default_rng(0)
    for own, value in of_agents(twins.native, first.observations, 0).items():
        equal(value, twins.mpe2.aec_env.unwrapped.observe(own))
    for _ in range(section.max_cycles):
        actions = drawn_actions(twins.native, random)
        transition = twins.native.step(actions)
        observations, rewards, *_ = twins.mpe2.step(of_agents(twins.native, actions, 0))
        seen = (transition.final or transition.view).observations
        for own, value in of_agents(twins.native, seen, 0).items():
            equal(value, observations[own])
        for own, value in of_agents(twins.native, transition.rewards, 0).items():
            equal(value, rewards[own])
