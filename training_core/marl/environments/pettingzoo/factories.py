"""Vectorised environments from PettingZoo's, by config section."""

from collections.abc import Callable, Mapping
from typing import Any

from training_core.importing import load_object
from training_core.marl.environments.environment_config import Wrapped
from training_core.marl.environments.pettingzoo import simple_foraging, simple_hetero
from training_core.marl.environments.pettingzoo.adapter import AdapterSettings, PettingZooEnvironment
from training_core.marl.environments.pettingzoo.config import PettingZoo
from training_core.marl.environments.pettingzoo.supersuit import wrap
from training_core.marl.environments.sequential import SequentialEnvironments
from training_core.marl.environments.simple_foraging.config import SimpleForaging
from training_core.marl.environments.simple_hetero.config import SimpleHetero


def adapt(
    make: Callable[[], Any],
    section: Wrapped,
    count: int,
    name: str,
    *,
    members: Mapping[str, tuple[str, ...]],
    max_steps: int = 0,
) -> SequentialEnvironments:
    """`count` parallel environments that `make` constructs, wrapped as configured."""
    settings = AdapterSettings(members, section.strict_agents, section.action_masks, max_steps)
    return SequentialEnvironments(
        lambda: PettingZooEnvironment(wrap(make(), section.supersuit), settings), count, name
    )


def pettingzoo(section: PettingZoo, count: int) -> SequentialEnvironments:
    """Any parallel environment, by import path."""
    make = load_object(section.path, "environment.path")
    return adapt(lambda: make(**section.args), section, count, section.path, members=section.members)


def hetero(section: SimpleHetero, count: int) -> SequentialEnvironments:
    """simple_hetero_pz."""
    return _toy(section, simple_hetero.parallel_env, count)


def foraging(section: SimpleForaging, count: int) -> SequentialEnvironments:
    """simple_foraging_pz."""
    return _toy(section, simple_foraging.parallel_env, count)


def _toy(
    section: SimpleHetero | SimpleForaging, make: Callable[..., Any], count: int
) -> SequentialEnvironments:
    settings = AdapterSettings(max_steps=section.max_cycles)
    return SequentialEnvironments(
        lambda: PettingZooEnvironment(make(**section.model_dump()), settings), count, section.type
    )
