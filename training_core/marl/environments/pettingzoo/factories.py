"""Vectorised environments from PettingZoo's, by config section."""

from collections.abc import Callable
from typing import Any

from training_core.config.marl.environments import (
    MarlEnvironment,
    Mpe,
    PettingZoo,
    SimpleForaging,
    SimpleHetero,
    SuperSuit,
    Wrapped,
)
from training_core.importing import load_object
from training_core.marl.environments.pettingzoo import simple_foraging, simple_hetero
from training_core.marl.environments.pettingzoo.adapter import AdapterSettings, PettingZooEnvironment
from training_core.marl.environments.pettingzoo.mpe import MEMBERS, mpe_maker
from training_core.marl.environments.pettingzoo.supersuit import wrap
from training_core.marl.environments.sequential import SequentialEnvironments


def mpe(section: Mpe, count: int) -> SequentialEnvironments:
    """The package's multi-particle environments."""
    settings = _adapter_settings(section, MEMBERS[section.type], section.max_cycles)
    make = mpe_maker(section)
    return SequentialEnvironments(lambda: _single(make(), section.supersuit, settings), count, section.type)


def pettingzoo(section: PettingZoo, count: int) -> SequentialEnvironments:
    """Any parallel environment, by import path."""
    make = load_object(section.path, "environment.path")
    settings = _adapter_settings(section, section.members, 0)
    return SequentialEnvironments(
        lambda: _single(make(**section.args), section.supersuit, settings), count, section.path
    )


def hetero(section: SimpleHetero, count: int) -> SequentialEnvironments:
    """simple_hetero_pz."""
    return _toy(section, simple_hetero.parallel_env, count, section.max_cycles)


def foraging(section: SimpleForaging, count: int) -> SequentialEnvironments:
    """simple_foraging_pz."""
    return _toy(section, simple_foraging.parallel_env, count, section.max_cycles)


def _toy(
    section: MarlEnvironment, make: Callable[..., Any], count: int, max_steps: int
) -> SequentialEnvironments:
    settings = AdapterSettings(max_steps=max_steps)
    return SequentialEnvironments(
        lambda: _single(make(**section.model_dump()), SuperSuit(), settings), count, section.type
    )


def _adapter_settings(
    section: Wrapped, members: dict[str, tuple[str, ...]], max_steps: int
) -> AdapterSettings:
    return AdapterSettings(members, section.strict_agents, section.action_masks, max_steps)


def _single(environment: Any, supersuit: SuperSuit, settings: AdapterSettings) -> PettingZooEnvironment:
    return PettingZooEnvironment(wrap(environment, supersuit), settings)
