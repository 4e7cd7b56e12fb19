"""Gymnasium's environments: last states, seeds of each episode, continuous actions."""

from collections.abc import Iterator

import gymnasium
import numpy as np
import pytest

from training_core.errors import ConfigError, EnvironmentFailure
from training_core.marl.environments.base import Choices, Continuous, SeveralChoices, Success
from training_core.marl.environments.config import GymnasiumVector
from training_core.marl.environments.episodes import episode_seeds
from training_core.marl.environments.registry import make_environments


def test_every_episode_is_the_one_that_gymnasium_plays_alone_from_its_seed() -> None:
    environments = make_environments(GymnasiumVector(type="gymnasium", id="CartPole-v1"), 3)
    assert environments.spec.max_steps == 500 and environments.spec.roles["agents"].actions == Choices(2)
    alone, random, episodes, ends = (
        [gymnasium.make("CartPole-v1") for _ in range(3)],
        np.random.default_rng(0),
        [0] * 3,
        0,
    )

    def begin(row: int) -> np.ndarray:
        return alone[row].reset(
            seed=int(episode_seeds(8, np.array([row + 4]), np.array([episodes[row]]))[0])
        )[0]

    view = environments.reset(8, first=4)
    assert np.array_equal(view.observations["agents"][:, 0], np.stack([begin(row) for row in range(3)]))
    for _ in range(120):
        actions = random.integers(0, 2, (3, 1))
        moved = environments.step({"agents": actions})
        for row in range(3):
            seen, reward, terminated, truncated, _ = alone[row].step(int(actions[row, 0]))
            assert (moved.terminated[row], moved.truncated[row]) == (terminated, truncated)
            assert moved.rewards["agents"][row, 0] == reward
            if terminated:
                ends, episodes[row] = ends + 1, episodes[row] + 1
                assert moved.final is not None and np.array_equal(
                    moved.final.observations["agents"][row, 0], seen
                )
                seen = begin(row)
            assert np.array_equal(moved.view.observations["agents"][row, 0], seen)
    assert ends > 6
    environments.close()


def test_time_limits_cut_off_and_continuous_actions_are_held_within_bounds() -> None:
    section = GymnasiumVector(id="MountainCarContinuous-v0", args={"max_episode_steps": 5})
    environments = make_environments(section, 2)
    assert environments.spec.roles["agents"].actions == Continuous((-1.0,), (1.0,))
    environments.reset(1)
    moved = [environments.step({"agents": np.full((2, 1, 1), 7.0, dtype=np.float32)}) for _ in range(5)]
    assert [step.truncated.tolist() for step in moved] == [[False, False]] * 4 + [[True, True]]
    assert not any(step.terminated.any() for step in moved)
    assert moved[0].rewards["agents"][0, 0] == pytest.approx(-0.1)  # of a force of 1, not of 7
    assert moved[4].final is not None and moved[4].view.observations["agents"][0, 0, 1] == 0
    assert moved[4].final.observations["agents"][0, 0, 1] > 0


class Levers(gymnasium.Env):
    """Three sets of choices; the reward is what was chosen, as a number of three digits."""

    observation_space = gymnasium.spaces.Box(-1, 1, (2,), np.float32)
    action_space = gymnasium.spaces.MultiDiscrete([3, 2, 4], start=[0, 1, 0])

    def reset(self, *, seed: int | None = None, options: object = None) -> tuple[np.ndarray, dict]:
        return np.zeros(2, np.float32), {}

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict]:
        assert self.action_space.contains(action)
        return np.zeros(2, np.float32), float(action @ [100, 10, 1]), False, False, {}


class Broken(Levers):
    def __init__(self, breaks: str = "") -> None:
        self._breaks = breaks

    def reset(self, *, seed: int | None = None, options: object = None) -> tuple[np.ndarray, dict]:
        if self._breaks == "reset":
            raise RuntimeError("no start")
        return super().reset(seed=seed, options=options)

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict]:
        raise RuntimeError("no more")


@pytest.fixture
def registered() -> Iterator[None]:
    """Levers-v0 and Broken-v0."""
    for kind in (Levers, Broken):
        gymnasium.register(f"{kind.__name__}-v0", kind)
    yield
    for kind in (Levers, Broken):
        del gymnasium.registry[f"{kind.__name__}-v0"]


def test_a_choice_from_each_of_several_sets(registered: None) -> None:
    environments = make_environments(GymnasiumVector(id="Levers-v0"), 2)
    assert environments.spec.roles["agents"].actions == SeveralChoices((3, 2, 4))
    environments.reset(0)
    moved = environments.step({"agents": np.array([[[2, 0, 3]], [[0, 1, 0]]])})
    assert moved.rewards["agents"].tolist() == [[213.0], [20.0]]


def test_an_error_in_a_joint_step_ends_all_with_a_remedy(registered: None) -> None:
    environments = make_environments(GymnasiumVector(id="Broken-v0"), 2)
    environments.reset(0)
    with pytest.raises(
        EnvironmentFailure, match=r"Broken-v0, step: RuntimeError: no more\. .* fix it, and test"
    ):
        environments.step({"agents": np.zeros((2, 1, 3), dtype=np.int64)})
    environments = make_environments(GymnasiumVector(id="Broken-v0", args={"breaks": "reset"}), 2)
    with pytest.raises(EnvironmentFailure, match="Broken-v0, reset: RuntimeError: no start"):
        environments.reset(0)


def test_what_there_is_not_is_told() -> None:
    with pytest.raises(ConfigError, match=r"environment\.id"):
        make_environments(GymnasiumVector(id="NoSuchThing-v0"), 1)
    with pytest.raises(ConfigError, match="no_such_module"):
        make_environments(GymnasiumVector(id="no_such_module:Thing-v0"), 1)


def test_a_module_that_registers_its_environment_on_import_is_named_with_it() -> None:
    name = f"{__name__}:Bits-v0"
    environments = make_environments(GymnasiumVector(id=name), 2)
    assert environments.spec.roles["agents"].actions == SeveralChoices((2, 2, 2))
    environments.reset(0)
    moved = environments.step({"agents": np.array([[[1, 0, 1]], [[0, 1, 1]]])})
    assert moved.rewards["agents"].tolist() == [[5.0], [6.0]]


class Bits(gymnasium.Env):
    """Three bits are a number, which is earned."""

    observation_space = gymnasium.spaces.Box(0.0, 1.0, (1,), np.float32)
    action_space = gymnasium.spaces.MultiBinary(3)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.zeros(1, np.float32), {}

    def step(self, action):
        assert self.action_space.contains(action)
        return np.zeros(1, np.float32), float(np.dot(action, [1, 2, 4])), False, False, {}


gymnasium.register("Bits-v0", Bits)


class RolloutValues(gymnasium.Env):
    """Ends after three steps, and says "is_success" then: whether the last action was 1."""

    observation_space = gymnasium.spaces.Box(0.0, 9.0, (1,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.steps = 0
        return np.zeros(1, np.float32), {}

    def step(self, action):
        self.steps += 1
        over = self.steps == 3
        return (
            np.full(1, self.steps, np.float32),
            0.0,
            over,
            False,
            {"is_success": action == 1} if over else {},
        )


def test_success_reaches_the_transition_of_an_episode_that_ended() -> None:
    gymnasium.register("troupe/Judged-v0", RolloutValues)
    try:
        environments = make_environments(GymnasiumVector(id="troupe/Judged-v0"), 2)
        environments.reset(0)
        steps = [environments.step({"agents": np.array([[1], [0]])}) for _ in range(3)]
        assert [step.successes for step in steps] == [{}, {}, {0: Success(True), 1: Success(False)}]
    finally:
        del gymnasium.registry["troupe/Judged-v0"]
