"""Construct the environments of a config section."""

from training_core.importing import resolve
from training_core.marl.environments.base import VectorEnvironment
from training_core.marl.environments.environment_config import MarlEnvironment
from training_core.marl.environments.games import Games
from training_core.marl.environments.optional_packages import import_optional
from training_core.marl.environments.registry import MARL_ENVIRONMENTS

PACKAGE = __name__.rpartition(".")[0]


def make_environments(section: MarlEnvironment, count: int) -> VectorEnvironment:
    """`count` environments behind one interface. Raises ConfigError if a package is missing."""
    kind = MARL_ENVIRONMENTS[section.type]
    if kind.needs:
        import_optional(kind.needs, section.type)
    constructed = resolve(f"{PACKAGE}.{kind.make}")(section, count)
    environments: VectorEnvironment = Games(constructed, count) if kind.is_game else constructed
    return environments
