"""What all native multi-particle environments promise, whatever is played."""

import numpy as np
import pytest
from pydantic import TypeAdapter

from tests.training_core.marl.environments.mpe.mpe2_twin import drawn_actions
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

NATIVE = {
    "mpe_simple_spread": SimpleSpread,
    "mpe_simple_tag": SimpleTag,
    "mpe_simple_adversary": SimpleAdversary,
    "mpe_simple_push": SimplePush,
    "mpe_simple_reference": SimpleReference,
}
SCENARIOS: list[NativeMpe] = [make() for make in NATIVE.values()]


def made(section: NativeMpe, count: int = 4) -> MpeEnvironment:
    found: VectorEnvironment = make_environments(section, count)
    assert isinstance(found, MpeEnvironment)
    return found


def played(environment: MpeEnvironment, seed: int, steps: int) -> list[np.ndarray]:
    """All that is seen and earned."""
    random = np.random.default_rng(7)
    found = list(environment.reset(seed).observations.values())
    for _ in range(steps):
        transition = environment.step(drawn_actions(environment, random))
        found += [*transition.view.observations.values(), *transition.rewards.values()]
    return found


@pytest.mark.parametrize("section", SCENARIOS, ids=lambda section: section.type)
def test_tags_are_the_configs(section: NativeMpe) -> None:
    assert isinstance(section, NATIVE[section.type])


@pytest.mark.parametrize("section", SCENARIOS, ids=lambda section: section.type)
def test_the_seed_decides_everything(section: NativeMpe) -> None:
    environment = made(section)
    first, again = played(environment, 1, 30), played(made(section), 1, 30)
    assert all(np.array_equal(one, other) for one, other in zip(first, again, strict=True))
    assert not np.array_equal(first[0], played(environment, 2, 1)[0])
    assert not np.array_equal(first[0][0], first[0][1]), "environments beside each other differ"
    in_mid_episode = played(environment, 1, 30)
    assert all(np.array_equal(one, other) for one, other in zip(first, in_mid_episode, strict=True))


@pytest.mark.parametrize("section", SCENARIOS, ids=lambda section: section.type)
def test_an_environment_begins_as_it_would_in_a_larger_whole(section: NativeMpe) -> None:
    whole, share = made(section, count=6), made(section, count=2)
    for role, value in share.reset(5, first=3).observations.items():
        assert np.array_equal(value, whole.reset(5).observations[role][3:5])


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
