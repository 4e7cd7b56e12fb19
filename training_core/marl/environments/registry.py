"""Environments of small-network agents by the `type` of their config. Modules are imported on construction, so a run
only needs its own environment's packages.
"""

from collections.abc import Callable
from typing import Any

from training_core.config.marl.environments import (
    CustomMarl,
    GymnasiumVector,
    MarlEnvironment,
    Mpe,
    NativeMpe,
    PettingZoo,
    RecallCue,
    SimpleAdversary,
    SimpleForaging,
    SimpleHetero,
    SimplePush,
    SimpleReference,
    SimpleSpread,
    SimpleTag,
    ToySimpleSpread,
    Vmas,
)
from training_core.marl.environments.base import VectorEnvironment
from training_core.marl.environments.frame_stack import wrap_native
from training_core.marl.environments.games import Games
from training_core.marl.environments.optional_packages import import_optional


def _spread(section: SimpleSpread, count: int) -> VectorEnvironment:
    from training_core.marl.environments.mpe.spread import SpreadEnvironment

    return SpreadEnvironment(section, count)


def _reference(section: SimpleReference, count: int) -> VectorEnvironment:
    from training_core.marl.environments.mpe.reference import ReferenceEnvironment

    return ReferenceEnvironment(section, count)


def _push(section: SimplePush, count: int) -> VectorEnvironment:
    from training_core.marl.environments.mpe.push import PushEnvironment

    return PushEnvironment(section, count)


def _adversary(section: SimpleAdversary, count: int) -> VectorEnvironment:
    from training_core.marl.environments.mpe.adversary import AdversaryEnvironment

    return AdversaryEnvironment(section, count)


def _tag(section: SimpleTag, count: int) -> VectorEnvironment:
    from training_core.marl.environments.mpe.tag import TagEnvironment

    return TagEnvironment(section, count)


def _recall_cue(section: RecallCue, count: int) -> VectorEnvironment:
    from training_core.marl.environments.games import Games
    from training_core.marl.environments.recall_cue import RecallCueGame

    return Games(RecallCueGame(section, count), count)


def _mpe(section: Mpe, count: int) -> VectorEnvironment:
    import_optional("pettingzoo", section.type)
    from training_core.marl.environments.pettingzoo import factories

    return factories.mpe(section, count)


def _pettingzoo(section: PettingZoo, count: int) -> VectorEnvironment:
    import_optional("pettingzoo", section.type)
    from training_core.marl.environments.pettingzoo import factories

    return factories.pettingzoo(section, count)


def _custom(section: CustomMarl, count: int) -> VectorEnvironment:
    from training_core.marl.environments import custom

    return custom.make(section, count)


def _gymnasium(section: GymnasiumVector, count: int) -> VectorEnvironment:
    import_optional("gymnasium", section.type)
    from training_core.marl.environments.gymnasium_vector import GymnasiumEnvironments

    return GymnasiumEnvironments(section, count)


def _vmas(section: Vmas, count: int) -> VectorEnvironment:
    import_optional("vmas", section.type)
    from training_core.marl.environments.vmas_scenarios import VmasEnvironments

    return VmasEnvironments(section, count)


def _toy_spread(section: ToySimpleSpread, count: int) -> VectorEnvironment:
    from training_core.marl.environments.toys.toy_simple_spread import ToySpreadGame

    return Games(ToySpreadGame(section, count), count)


def _hetero(section: SimpleHetero, count: int) -> VectorEnvironment:
    if section.type == "simple_hetero_pz":
        import_optional("pettingzoo", section.type)
        from training_core.marl.environments.pettingzoo import factories

        return factories.hetero(section, count)
    from training_core.marl.environments.toys.simple_hetero import HeteroGame

    return Games(HeteroGame(section, count), count)


def _foraging(section: SimpleForaging, count: int) -> VectorEnvironment:
    if section.type == "simple_foraging_pz":
        import_optional("pettingzoo", section.type)
        from training_core.marl.environments.pettingzoo import factories

        return factories.foraging(section, count)
    from training_core.marl.environments.toys.simple_foraging import ForagingGame

    return Games(ForagingGame(section, count), count)


MARL_ENVIRONMENTS: dict[str, Callable[[Any, int], VectorEnvironment]] = {
    "mpe_simple_spread": _spread,
    "mpe_simple_reference": _reference,
    "mpe_simple_push": _push,
    "mpe_simple_adversary": _adversary,
    "mpe_simple_tag": _tag,
    "recall_cue": _recall_cue,
    "mpe_simple_crypto": _mpe,
    "mpe_simple_world_comm": _mpe,
    "toy_simple_spread": _toy_spread,
    "simple_hetero": _hetero,
    "simple_hetero_pz": _hetero,
    "simple_foraging": _foraging,
    "simple_foraging_pz": _foraging,
    "pettingzoo": _pettingzoo,
    "custom_marl": _custom,
    "gymnasium": _gymnasium,
    "vmas": _vmas,
}
"""type -> (config section, how many) -> environments."""


def make_environments(section: MarlEnvironment, count: int) -> VectorEnvironment:
    """`count` environments behind one interface. Raises ConfigError if a package is missing."""
    if isinstance(section, NativeMpe) and section.backend == "mpe2":
        return _mpe(section, count)
    environments = MARL_ENVIRONMENTS[section.type](section, count)
    return wrap_native(environments, section.supersuit) if isinstance(section, NativeMpe) else environments
