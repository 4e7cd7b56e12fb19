"""What all native multi-particle environments promise, whatever is played; and that every step is mpe2's, from the same states."""

import numpy as np
import pytest
from pydantic import TypeAdapter

from tests.training_core.marl.environments.mpe.mpe2_twin import Twins, drawn_actions, equal, of_agents
from training_core.boards import Board, Plane
from training_core.errors import EnvironmentFailure
from training_core.marl.environments.base import Continuous, VectorEnvironment
from training_core.marl.environments.config import (
    NativeMpe,
    SimpleAdversary,
    SimplePush,
    SimpleReference,
    SimpleSpread,
    SimpleTag,
)
from training_core.marl.environments.mpe.world import MpeEnvironment
from training_core.marl.environments.registry import make_environments

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


SCENARIOS: list[NativeMpe] = [SimpleSpread(), SimpleTag(), SimpleAdversary(), SimplePush(), SimpleReference()]


def made(section: NativeMpe, count: int = 4) -> MpeEnvironment:
    found: VectorEnvironment = make_environments(section, count)
    assert isinstance(found, MpeEnvironment)
    return found


@pytest.mark.parametrize("section", SCENARIOS, ids=lambda section: section.type)
def test_episodes_begin_anywhere(section: NativeMpe) -> None:
    environment = made(section, count=2000)
    environment.reset(0)
    edge = 0.9 if isinstance(section, SimpleTag) else 1.0
    for place, positions in enumerate(environment.world.positions):
        reach = edge if place >= environment.world.bodies.agents else 1.0
        assert abs(positions).max() <= reach
        assert abs(positions).max() > 0.99 * reach
        assert abs(positions.mean(axis=1)).max() < 0.06  # standard error 0.013
    goals = getattr(environment, "goals", np.zeros(0, dtype=np.int64))
    landmarks = environment.world.bodies.landmarks
    for drawn in goals.reshape(-1, 2000) if goals.size else ():
        shares = np.bincount(drawn, minlength=landmarks) / 2000
        assert abs(shares - 1 / landmarks).max() < 0.06


@pytest.mark.parametrize("section", SCENARIOS, ids=lambda section: section.type)
def test_episodes_are_cut_off_after_max_cycles_and_the_next_has_begun(section: NativeMpe) -> None:
    environment = made(section.model_copy(update={"max_cycles": 3}))
    random = np.random.default_rng(0)
    environment.reset(0)
    for step in range(1, 10):
        transition = environment.step(drawn_actions(environment, random))
        over = step % 3 == 0
        assert transition.truncated.tolist() == [over] * 4
        assert not transition.terminated.any()
        assert (transition.final is not None) == over
        if transition.final is not None:
            assert not environment.world.velocities.any(), "the next episode begins at rest"
            for role, last in transition.final.observations.items():
                assert not np.array_equal(last, transition.view.observations[role])


@pytest.mark.parametrize("section", SCENARIOS, ids=lambda section: section.type)
@pytest.mark.parametrize("continuous", [False, True])
def test_arrays_have_the_specified_shapes_and_are_not_modified(section: NativeMpe, continuous: bool) -> None:
    environment = made(section.model_copy(update={"continuous_actions": continuous}), count=5)
    random = np.random.default_rng(0)
    view = environment.reset(0)
    kept = {role: value.copy() for role, value in view.observations.items()}
    transition = environment.step(drawn_actions(environment, random))
    for role, spec in environment.spec.roles.items():
        assert isinstance(spec.actions, Continuous) == continuous
        observations, rewards = transition.view.observations[role], transition.rewards[role]
        assert observations.shape == (5, len(spec.agents), spec.observation_dim)
        assert rewards.shape == (5, len(spec.agents))
        assert observations.dtype == rewards.dtype == np.float32
        assert np.array_equal(view.observations[role], kept[role])
    assert tuple(environment.spec.roles) == section.roles


def test_an_action_that_there_is_not_names_environment_and_agent() -> None:
    environment = made(SimpleSpread())
    environment.reset(0)
    actions = np.zeros((4, 3), dtype=np.int64)
    actions[2, 1] = 5
    with pytest.raises(EnvironmentFailure, match=r"environment 2: agent_1 has no action 5; use 0 to 4"):
        environment.step({"agents": actions})


@pytest.mark.parametrize("section", SCENARIOS, ids=lambda section: section.type)
def test_the_board_shows_where_everything_is(section: NativeMpe) -> None:
    environment = made(section)
    random = np.random.default_rng(0)
    environment.reset(0)
    for _ in range(5):
        environment.step(drawn_actions(environment, random))
    environment.world.positions[0, :, 2] = (2.3, -0.5)
    board = TypeAdapter(Board).validate_python(environment.board(2))
    assert isinstance(board, Plane)
    assert board.bounds == (-2.5, -2.5, 2.5, 2.5)
    assert (board.entities[0].x, board.entities[0].y) == (2.3, -0.5)
    names = [each.name for each in board.entities if each.kind == "agent"]
    assert names == [name for role in environment.spec.roles.values() for name in role.agents]
    velocity = environment.world.velocities[0, :, 2] * 0.1
    assert board.entities[0].velocity == tuple(velocity.tolist())
    assert len(board.entities) == len(environment.world.positions)
