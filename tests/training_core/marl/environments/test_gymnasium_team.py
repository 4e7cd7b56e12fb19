"""Teams behind Gymnasium's interface, with the tuples of level-based foraging and RWARE."""

from collections.abc import Iterator

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete, Tuple

from training_core.errors import ConfigError
from training_core.marl.environments.base import Choices
from training_core.marl.environments.config import GymnasiumVector
from training_core.marl.environments.episodes import episode_seeds
from training_core.marl.environments.registry import make_environments

AGENTS, STEPS = 3, 4


class Guess(gymnasium.Env):
    """Each agent sees a number, the steps, and earns 1 for naming the number. As in lbforaging and rware: tuples of
    observations, a list of rewards, one flag for all.
    """

    action_space = Tuple([Discrete(4)] * AGENTS)

    def __init__(self, seen_by: int = AGENTS) -> None:
        self.observation_space = Tuple([Box(0, 9, (2,), np.float32)] * seen_by)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.steps = 0
        return self._seen(), {}

    def step(self, actions):
        assert self.action_space.contains(tuple(map(np.int64, actions)))
        earned = [float(action == number) for action, number in zip(actions, self.numbers, strict=True)]
        self.steps += 1
        return self._seen(), earned, self.steps == STEPS, False, {"success": all(earned)}

    def _seen(self):
        self.numbers = self.np_random.integers(0, 4, AGENTS)
        return tuple(np.array([number, self.steps], np.float32) for number in self.numbers)


@pytest.fixture(autouse=True)
def registered() -> Iterator[None]:
    gymnasium.register("Guess-v0", Guess)
    yield
    del gymnasium.registry["Guess-v0"]


def test_a_tuple_of_spaces_is_a_team_whose_agents_have_their_own_rewards() -> None:
    environments, naive = make_environments(GymnasiumVector(id="Guess-v0"), 2), Guess()
    role = environments.spec.roles["agents"]
    assert (role.agents, role.observation_dim) == (("agent_0", "agent_1", "agent_2"), 2)
    assert role.actions == Choices(4)
    random = np.random.default_rng(3)
    view, actions = environments.reset(7, first=5), random.integers(0, 4, (2 * STEPS, 2, AGENTS))
    for episode in range(2):
        seed = int(episode_seeds(7, np.array([6]), np.array([episode]))[0])
        seen, _ = naive.reset(seed=seed)
        for step in range(STEPS):
            assert np.array_equal(view.observations["agents"][1], np.stack(seen))
            chosen = actions[episode * STEPS + step]
            moved = environments.step({"agents": chosen})
            seen, earned, over, _, info = naive.step(chosen[1])
            assert moved.rewards["agents"][1].tolist() == earned
            assert moved.terminated.tolist() == [over, over] and not moved.truncated.any()
            view = moved.view
        assert moved.final is not None
        assert np.array_equal(moved.final.observations["agents"][1], np.stack(seen))
        assert moved.successes[1].agents == dict.fromkeys(role.agents, info["success"])


def test_a_time_limit_truncates_a_team() -> None:
    section = GymnasiumVector(id="Guess-v0", args={"max_episode_steps": 2})
    environments = make_environments(section, 1)
    assert environments.spec.max_steps == 2
    environments.reset(0)
    moved = [environments.step({"agents": np.zeros((1, AGENTS), np.int64)}) for _ in range(2)]
    assert [step.truncated.tolist() for step in moved] == [[False], [True]]
    assert not any(step.terminated.any() for step in moved)


def test_a_team_needs_an_observation_for_each_agent() -> None:
    with pytest.raises(ConfigError, match=r"environment\.id: actions of 3 agents need a tuple of as many"):
        make_environments(GymnasiumVector(id="Guess-v0", args={"seen_by": 2}), 1)
