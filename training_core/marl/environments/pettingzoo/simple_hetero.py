"""simple_hetero for PettingZoo: scouts and workers with separate observation and action spaces."""

from typing import Any

from training_core.marl.environments.pettingzoo.game import GameEnvironment, Sizes
from training_core.marl.environments.simple_hetero.config import SimpleHetero
from training_core.marl.environments.simple_hetero.game import HeteroGame


def parallel_env(**fields: Any) -> GameEnvironment:
    """A parallel environment; `fields` are those of the config section, such as num_scouts = 3."""
    section = SimpleHetero.model_validate(fields)
    game = HeteroGame(section, 1)
    scout, worker = Sizes(game.scout_dim, section.num_signals), Sizes(game.worker_dim, section.num_targets)
    sizes = [scout] * section.num_scouts + [worker] * section.num_workers
    return GameEnvironment("simple_hetero", game, sizes)
