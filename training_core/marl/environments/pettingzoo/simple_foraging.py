"""simple_foraging for PettingZoo."""

from typing import Any

from training_core.marl.environments.pettingzoo.game import GameEnvironment, Sizes
from training_core.marl.environments.simple_foraging.config import SimpleForaging
from training_core.marl.environments.simple_foraging.game import MOVES, ForagingGame


def parallel_env(**fields: Any) -> GameEnvironment:
    """A parallel environment; `fields` are those of the config section, such as grid_size = 8."""
    section = SimpleForaging.model_validate(fields)
    sizes = [Sizes(6, len(MOVES))] * section.num_agents
    return GameEnvironment("simple_foraging", ForagingGame(section, 1), sizes)
