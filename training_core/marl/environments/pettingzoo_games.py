"""The toys as PettingZoo parallel environments: a single game with names instead of arrays."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from gymnasium import spaces
from pettingzoo import ParallelEnv

from training_core.marl.environments.base import View
from training_core.marl.environments.config import SimpleForaging, SimpleHetero, ToySimpleSpread
from training_core.marl.environments.games import Game
from training_core.marl.environments.pettingzoo import AdapterSettings, PettingZooEnvironment
from training_core.marl.environments.sequential import SequentialEnvironments
from training_core.marl.environments.simple_foraging import MOVES, ForagingGame
from training_core.marl.environments.simple_hetero import HeteroGame
from training_core.marl.environments.toy_simple_spread import ToySpreadGame
from training_core.seeding import keyed_seed


@dataclass(frozen=True)
class Sizes:
    """Observation and action sizes of one agent."""

    observation: int
    """Size of the observation."""
    choices: int


class GameEnvironment(ParallelEnv):  # type: ignore[misc]
    """Plays a game with the single role `agents`. A reset without a seed starts the next episode of the last seed."""

    def __init__(self, name: str, game: Game, sizes: Sequence[Sizes]) -> None:
        self.metadata = {"name": name, "render_modes": []}
        self.render_mode = None
        self._game = game
        self.possible_agents = list(self._game.spec.roles["agents"].agents)
        self.agents = self.possible_agents[:]
        self._sizes = dict(zip(self.possible_agents, sizes, strict=True))
        self._seen = {
            agent: spaces.Box(-np.inf, np.inf, (size.observation,), np.float32)
            for agent, size in self._sizes.items()
        }
        self._acting = {agent: spaces.Discrete(size.choices) for agent, size in self._sizes.items()}
        self._seed, self._episode, self._steps = 0, 0, np.zeros(1, dtype=np.int64)

    def observation_space(self, agent: str) -> spaces.Space[Any]:
        return self._seen[agent]

    def action_space(self, agent: str) -> spaces.Space[Any]:
        return self._acting[agent]

    def reset(
        self, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        if seed is None:
            self._episode += 1
        else:
            self._seed, self._episode = seed, 0
        drawn = keyed_seed(self._seed, self._episode) if self._episode else self._seed
        self._steps[:] = 0
        self._game.begin(np.zeros(1, dtype=np.int64), np.array([drawn], dtype=np.int64))
        self.agents = self.possible_agents[:]
        return self._by_name(self._game.view(self._steps)), {agent: {} for agent in self.agents}

    def step(self, actions: Mapping[str, Any]) -> tuple[dict[str, Any], ...]:
        chosen = np.array([[int(actions[agent]) for agent in self.possible_agents]])
        rewards, over = self._game.play({"agents": chosen}, self._steps)
        self._steps += 1
        cut = bool(self._steps[0] >= self._game.spec.max_steps) and not over[0]
        terminated = bool(over[0]) or (cut and self._game.last_step == "terminated")
        truncated = cut and not terminated
        there = self.agents
        if terminated or truncated:
            self.agents = []
        return (
            self._by_name(self._game.view(self._steps)),
            {agent: float(reward) for agent, reward in zip(there, rewards["agents"][0], strict=True)},
            dict.fromkeys(there, terminated),
            dict.fromkeys(there, truncated),
            {agent: {} for agent in there},
        )

    def board(self) -> dict[str, Any] | None:
        """The game's picture."""
        return self._game.board(0)

    def close(self) -> None:
        """There are no resources to release."""

    def _by_name(self, view: View) -> dict[str, Any]:
        seen = view.observations["agents"][0]
        return {
            agent: row[: self._sizes[agent].observation]
            for agent, row in zip(self.possible_agents, seen, strict=True)
        }


def toy_simple_spread(**fields: Any) -> GameEnvironment:
    """toy_simple_spread; `fields` are those of its config section, such as num_agents = 5."""
    section = ToySimpleSpread.model_validate(fields)
    sizes = [Sizes(2, section.num_agents)] * section.num_agents
    return GameEnvironment("toy_simple_spread", ToySpreadGame(section, 1), sizes)


def simple_foraging(**fields: Any) -> GameEnvironment:
    """simple_foraging; `fields` are those of its config section, such as grid_size = 8."""
    section = SimpleForaging.model_validate(fields)
    sizes = [Sizes(6, len(MOVES))] * section.num_agents
    return GameEnvironment("simple_foraging", ForagingGame(section, 1), sizes)


def simple_hetero(**fields: Any) -> GameEnvironment:
    """simple_hetero; `fields` are those of its config section, such as num_scouts = 3.

    Scouts and workers have separate observation and action spaces.
    """
    section = SimpleHetero.model_validate(fields)
    game = HeteroGame(section, 1)
    scout, worker = Sizes(game.scout_dim, section.num_signals), Sizes(game.worker_dim, section.num_targets)
    sizes = [scout] * section.num_scouts + [worker] * section.num_workers
    return GameEnvironment("simple_hetero", game, sizes)


def make_foraging(section: SimpleForaging, count: int) -> SequentialEnvironments:
    """simple_foraging_pz."""
    return _adapted(section, simple_foraging, count)


def make_hetero(section: SimpleHetero, count: int) -> SequentialEnvironments:
    """simple_hetero_pz."""
    return _adapted(section, simple_hetero, count)


def _adapted(
    section: SimpleHetero | SimpleForaging, make: Callable[..., GameEnvironment], count: int
) -> SequentialEnvironments:
    settings = AdapterSettings(max_steps=section.max_cycles)
    return SequentialEnvironments(
        lambda: PettingZooEnvironment(make(**section.model_dump()), settings), count, section.type
    )
