"""toy_simple_spread for PettingZoo."""

from typing import Any

from training_core.marl.environments.pettingzoo.game import GameEnvironment, Sizes
from training_core.marl.environments.toy_simple_spread.config import ToySimpleSpread
from training_core.marl.environments.toy_simple_spread.game import ToySpreadGame


def parallel_env(**fields: Any) -> GameEnvironment:
    """A parallel environment; `fields` are those of the config section, such as num_agents = 5."""
    section = ToySimpleSpread.model_validate(fields)
    sizes = [Sizes(2, section.num_agents)] * section.num_agents
    return GameEnvironment("toy_simple_spread", ToySpreadGame(section, 1), sizes)
