"""Environments of small-network agents by the `type` of their config: one folder and one line each.

Only the `config` modules are imported here. The rest of an environment is imported when it is constructed, so a run
only needs its own environment's packages.
"""

from dataclasses import dataclass

from training_core.marl.environments.custom.config import CustomMarl
from training_core.marl.environments.environment_config import MarlEnvironment
from training_core.marl.environments.gymnasium.config import GymnasiumVector
from training_core.marl.environments.mpe.config import (
    SimpleAdversary,
    SimpleCrypto,
    SimplePush,
    SimpleReference,
    SimpleSpread,
    SimpleTag,
    SimpleWorldComm,
)
from training_core.marl.environments.pettingzoo.config import PettingZoo
from training_core.marl.environments.recall_cue.config import RecallCue
from training_core.marl.environments.simple_foraging.config import SimpleForaging
from training_core.marl.environments.simple_hetero.config import SimpleHetero
from training_core.marl.environments.toy_simple_spread.config import ToySimpleSpread
from training_core.marl.environments.vmas.config import Vmas


@dataclass(frozen=True)
class MarlKind:
    """One type of environment."""

    config: type[MarlEnvironment]
    make: str
    """"folder.module:Name" in this package: a VectorEnvironment or a Game, called with (config section, number of environments)."""
    needs: str = ""
    """The optional package that it needs."""
    is_game: bool = False
    """Whether `make` is a Game, which Games plays."""


MARL_ENVIRONMENTS: dict[str, MarlKind] = {
    "toy_simple_spread": MarlKind(ToySimpleSpread, "toy_simple_spread.game:ToySpreadGame", is_game=True),
    "mpe_simple_spread": MarlKind(SimpleSpread, "mpe.backends:spread"),
    "mpe_simple_reference": MarlKind(SimpleReference, "mpe.backends:reference"),
    "mpe_simple_crypto": MarlKind(SimpleCrypto, "mpe.mpe2:make", "pettingzoo"),
    "mpe_simple_world_comm": MarlKind(SimpleWorldComm, "mpe.mpe2:make", "pettingzoo"),
    "mpe_simple_push": MarlKind(SimplePush, "mpe.backends:push"),
    "mpe_simple_adversary": MarlKind(SimpleAdversary, "mpe.backends:adversary"),
    "mpe_simple_tag": MarlKind(SimpleTag, "mpe.backends:tag"),
    "simple_hetero": MarlKind(SimpleHetero, "simple_hetero.game:HeteroGame", is_game=True),
    "simple_hetero_pz": MarlKind(SimpleHetero, "pettingzoo.factories:hetero", "pettingzoo"),
    "simple_foraging": MarlKind(SimpleForaging, "simple_foraging.game:ForagingGame", is_game=True),
    "simple_foraging_pz": MarlKind(SimpleForaging, "pettingzoo.factories:foraging", "pettingzoo"),
    "pettingzoo": MarlKind(PettingZoo, "pettingzoo.factories:pettingzoo", "pettingzoo"),
    "custom_marl": MarlKind(CustomMarl, "custom.environment:make"),
    "gymnasium": MarlKind(GymnasiumVector, "gymnasium.environment:GymnasiumEnvironments", "gymnasium"),
    "vmas": MarlKind(Vmas, "vmas.environment:VmasEnvironments", "vmas"),
    "recall_cue": MarlKind(RecallCue, "recall_cue.game:RecallCueGame", is_game=True),
}
"""Environments by type, in the order of the pages."""
