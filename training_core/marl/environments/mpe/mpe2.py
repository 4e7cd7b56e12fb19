"""The multi-particle environments of the package mpe2, or of PettingZoo before 1.26, which included them."""

import importlib
import warnings
from collections.abc import Callable
from typing import Any

from training_core.errors import ConfigError
from training_core.marl.environments.mpe.config import Mpe
from training_core.marl.environments.optional_packages import REMEDY
from training_core.marl.environments.pettingzoo.factories import adapt
from training_core.marl.environments.sequential import SequentialEnvironments

MEMBERS: dict[str, dict[str, tuple[str, ...]]] = {
    "mpe_simple_spread": {},
    "mpe_simple_reference": {},
    "mpe_simple_crypto": {"adversaries": ("eve",), "good": ("bob", "alice")},
    "mpe_simple_world_comm": {"adversaries": ("leadadversary_", "adversary_"), "good": ("agent_",)},
    "mpe_simple_push": {"adversaries": ("adversary_",), "good": ("agent_",)},
    "mpe_simple_adversary": {"adversaries": ("adversary_",), "good": ("agent_",)},
    "mpe_simple_tag": {"adversaries": ("adversary_",), "good": ("agent_",)},
}
"""type -> agents of each role by name prefix; empty if all cooperate."""

ARGUMENTS = {
    "mpe_simple_spread": {"num_agents": "N", "local_ratio": "local_ratio"},
    "mpe_simple_reference": {"local_ratio": "local_ratio"},
    "mpe_simple_adversary": {"num_agents": "N"},
    "mpe_simple_tag": {name: name for name in ("num_good", "num_adversaries", "num_obstacles")},
    "mpe_simple_world_comm": {
        "num_good": "num_good",
        "num_adversaries": "num_adversaries",
        "num_obstacles": "num_obstacles",
        "num_food": "num_food",
        "num_forests": "num_forests",
    },
}
"""type -> field of its section -> the package's argument, in addition to max_cycles and continuous_actions."""


def make(section: Mpe, count: int) -> SequentialEnvironments:
    """The package's environments, stepped one by one."""
    members = MEMBERS[section.type]
    return adapt(
        mpe_maker(section), section, count, section.type, members=members, max_steps=section.max_cycles
    )


def mpe_maker(section: Mpe) -> Callable[[], Any]:
    """A function that constructs one parallel environment for the section. Raises ConfigError if no package provides it."""
    parallel_env = _module(section.type).parallel_env
    words = ARGUMENTS.get(section.type, {})
    arguments = {word: getattr(section, name) for name, word in words.items()}
    shared = {"max_cycles": section.max_cycles, "continuous_actions": section.continuous_actions}
    return lambda: parallel_env(**shared, **arguments)


def _module(kind: str) -> Any:
    name = f"{kind.removeprefix('mpe_')}_v3"
    for package in ("mpe2", "pettingzoo.mpe"):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", DeprecationWarning)
                return importlib.import_module(f"{package}.{name}")
        except ImportError:
            continue
    raise ConfigError({"environment.type": f"{kind} needs the package mpe2: {REMEDY}"})
