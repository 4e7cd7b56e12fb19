"""Environments of small-network agents by the `type` of their config (config.py), and how they are constructed.

An environment's module is imported when it is constructed, so a run only needs its own environment's packages.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from training_core.config.base import one_of
from training_core.importing import resolve
from training_core.marl.environments.config import (
    CustomMarl,
    GymnasiumVector,
    MarlEnvironment,
    PettingZoo,
    RecallCue,
    SimpleAdversary,
    SimpleCrypto,
    SimpleForaging,
    SimpleHetero,
    SimplePush,
    SimpleReference,
    SimpleSpread,
    SimpleTag,
    SimpleWorldComm,
    ToySimpleSpread,
    Vmas,
)
from training_core.marl.environments.packages import import_optional

if TYPE_CHECKING:
    from training_core.marl.environments.base import VectorEnvironment

PACKAGE = __name__.rpartition(".")[0]


@dataclass(frozen=True)
class MarlKind:
    """One type of environment."""

    config: type[MarlEnvironment]
    make: str
    """"module:Name" in this package: a VectorEnvironment or a Game, called with (config section, number of environments)."""
    needs: str = ""
    """The optional package that it needs."""
    is_game: bool = False
    """Whether `make` is a Game, which Games plays."""


MARL_ENVIRONMENTS: dict[str, MarlKind] = {
    "toy_simple_spread": MarlKind(ToySimpleSpread, "toy_simple_spread:ToySpreadGame", is_game=True),
    "mpe_simple_spread": MarlKind(SimpleSpread, "mpe.backends:make_native"),
    "mpe_simple_reference": MarlKind(SimpleReference, "mpe.backends:make_native"),
    "mpe_simple_crypto": MarlKind(SimpleCrypto, "mpe.backends:make_mpe2", "pettingzoo"),
    "mpe_simple_world_comm": MarlKind(SimpleWorldComm, "mpe.backends:make_mpe2", "pettingzoo"),
    "mpe_simple_push": MarlKind(SimplePush, "mpe.backends:make_native"),
    "mpe_simple_adversary": MarlKind(SimpleAdversary, "mpe.backends:make_native"),
    "mpe_simple_tag": MarlKind(SimpleTag, "mpe.backends:make_native"),
    "simple_hetero": MarlKind(SimpleHetero, "simple_hetero:HeteroGame", is_game=True),
    "simple_hetero_pz": MarlKind(SimpleHetero, "pettingzoo_games:make_hetero", "pettingzoo"),
    "simple_foraging": MarlKind(SimpleForaging, "simple_foraging:ForagingGame", is_game=True),
    "simple_foraging_pz": MarlKind(SimpleForaging, "pettingzoo_games:make_foraging", "pettingzoo"),
    "pettingzoo": MarlKind(PettingZoo, "pettingzoo:make", "pettingzoo"),
    "custom_marl": MarlKind(CustomMarl, "custom:make"),
    "gymnasium": MarlKind(GymnasiumVector, "gymnasium:make", "gymnasium"),
    "vmas": MarlKind(Vmas, "vmas:VmasEnvironments", "vmas"),
    "recall_cue": MarlKind(RecallCue, "recall_cue:RecallCueGame", is_game=True),
}
"""Environments by type, in the order of the pages."""

MARL_ENVIRONMENT_CONFIGS: dict[str, type[MarlEnvironment]] = {
    tag: kind.config for tag, kind in MARL_ENVIRONMENTS.items()
}
"""type -> config class."""

if TYPE_CHECKING:
    AnyMarlEnvironment = MarlEnvironment
else:
    AnyMarlEnvironment = one_of(MARL_ENVIRONMENT_CONFIGS)


def make_environments(section: MarlEnvironment, count: int) -> "VectorEnvironment":
    """`count` environments behind one interface. Raises ConfigError if a package is missing."""
    kind = MARL_ENVIRONMENTS[section.type]
    if kind.needs:
        import_optional(kind.needs, section.type)
    environments = resolve(f"{PACKAGE}.{kind.make}")(section, count)
    if kind.is_game:
        environments = resolve(f"{PACKAGE}.games:Games")(environments, count)
    made: VectorEnvironment = environments
    return made
