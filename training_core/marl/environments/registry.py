"""Environments of small-network agents by the `type` of their config. Modules are imported on construction, so a run
only needs its own environment's packages.
"""

from dataclasses import dataclass

from training_core.config.marl.environments import MarlEnvironment, NativeMpe
from training_core.importing import resolve
from training_core.marl.environments.base import VectorEnvironment
from training_core.marl.environments.frame_stack import wrap_native
from training_core.marl.environments.games import Games
from training_core.marl.environments.optional_packages import import_optional

PACKAGE = __name__.rpartition(".")[0]


@dataclass(frozen=True)
class MarlKind:
    """One type of environment."""

    make: str
    """"module:Name" in this package: a VectorEnvironment or a Game, called with (config section, number of environments)."""
    needs: str = ""
    """The optional package that it needs."""
    is_game: bool = False
    """Whether `make` is a Game, which Games plays."""


MPE2 = MarlKind("pettingzoo.factories:mpe", "pettingzoo")
"""The multi-particle environments of the package."""
MARL_ENVIRONMENTS: dict[str, MarlKind] = {
    "mpe_simple_spread": MarlKind("mpe.spread:SpreadEnvironment"),
    "mpe_simple_reference": MarlKind("mpe.reference:ReferenceEnvironment"),
    "mpe_simple_push": MarlKind("mpe.push:PushEnvironment"),
    "mpe_simple_adversary": MarlKind("mpe.adversary:AdversaryEnvironment"),
    "mpe_simple_tag": MarlKind("mpe.tag:TagEnvironment"),
    "recall_cue": MarlKind("recall_cue:RecallCueGame", is_game=True),
    "mpe_simple_crypto": MPE2,
    "mpe_simple_world_comm": MPE2,
    "toy_simple_spread": MarlKind("toys.toy_simple_spread:ToySpreadGame", is_game=True),
    "simple_hetero": MarlKind("toys.simple_hetero:HeteroGame", is_game=True),
    "simple_hetero_pz": MarlKind("pettingzoo.factories:hetero", "pettingzoo"),
    "simple_foraging": MarlKind("toys.simple_foraging:ForagingGame", is_game=True),
    "simple_foraging_pz": MarlKind("pettingzoo.factories:foraging", "pettingzoo"),
    "pettingzoo": MarlKind("pettingzoo.factories:pettingzoo", "pettingzoo"),
    "custom_marl": MarlKind("custom:make"),
    "gymnasium": MarlKind("gymnasium_vector:GymnasiumEnvironments", "gymnasium"),
    "vmas": MarlKind("vmas_scenarios:VmasEnvironments", "vmas"),
}
"""Environments by type."""


def make_environments(section: MarlEnvironment, count: int) -> VectorEnvironment:
    """`count` environments behind one interface. Raises ConfigError if a package is missing."""
    from_package = isinstance(section, NativeMpe) and section.backend == "mpe2"
    kind = MPE2 if from_package else MARL_ENVIRONMENTS[section.type]
    if kind.needs:
        import_optional(kind.needs, section.type)
    made = resolve(f"{PACKAGE}.{kind.make}")(section, count)
    environments: VectorEnvironment = Games(made, count) if kind.is_game else made
    if isinstance(section, NativeMpe) and not from_package:
        return wrap_native(environments, section.supersuit)
    return environments
