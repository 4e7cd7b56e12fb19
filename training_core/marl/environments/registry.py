"""Environments of small-network agents by the `type` of their config. Modules are imported when one is made, so that a run needs the
packages of its own environment alone."""

from collections.abc import Callable
from typing import Any

from training_core.config.marl.environments import MarlEnvironment, SimpleSpread
from training_core.marl.environments.base import VectorEnvironment


def _spread(section: SimpleSpread, count: int) -> VectorEnvironment:
    from training_core.marl.environments.mpe.spread import SpreadEnvironment

    return SpreadEnvironment(section, count)


MARL_ENVIRONMENTS: dict[str, Callable[[Any, int], VectorEnvironment]] = {
    "mpe_simple_spread": _spread,
}
"""type -> (config section, how many) -> environments."""


def make_environments(section: MarlEnvironment, count: int) -> VectorEnvironment:
    """`count` environments behind one interface. Raises ConfigError where a package is missing."""
    return MARL_ENVIRONMENTS[section.type](section, count)
