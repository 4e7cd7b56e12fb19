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
from training_core.marl.environments.pettingzoo.adapter import Manner, ParallelSingle
from training_core.marl.environments.pettingzoo.mpe import MEMBERS, mpe_maker
from training_core.marl.environments.pettingzoo.supersuit import wrap
from training_core.marl.environments.singles import Singles


def mpe(section: Mpe, count: int) -> Singles:
    """The package's multi-particle environments."""
    manner = _manner(section, MEMBERS[section.type], section.max_cycles)
    make = mpe_maker(section)
    return Singles(lambda: _single(make(), section.supersuit, manner), count, section.type)


def pettingzoo(section: PettingZoo, count: int) -> Singles:
    """Any parallel environment, by import path."""
    make = load_object(section.path, "environment.path")
    manner = _manner(section, section.members, 0)
    return Singles(lambda: _single(make(**section.args), section.supersuit, manner), count, section.path)


def hetero(section: SimpleHetero, count: int) -> Singles:
    """simple_hetero_pz."""
    return _toy(section, simple_hetero.parallel_env, count, section.max_cycles)


def foraging(section: SimpleForaging, count: int) -> Singles:
    """simple_foraging_pz."""
    return _toy(section, simple_foraging.parallel_env, count, section.max_cycles)


def _toy(section: MarlEnvironment, make: Callable[..., Any], count: int, max_steps: int) -> Singles:
    manner = Manner(max_steps=max_steps)
    return Singles(lambda: _single(make(**section.model_dump()), SuperSuit(), manner), count, section.type)


def _manner(section: Wrapped, members: dict[str, tuple[str, ...]], max_steps: int) -> Manner:
    return Manner(members, section.strict_agents, section.action_masks, max_steps)


def _single(environment: Any, supersuit: SuperSuit, manner: Manner) -> ParallelSingle:
    return ParallelSingle(wrap(environment, supersuit), manner)
