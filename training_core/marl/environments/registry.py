"""Environments of small-network agents by the `type` of their config. Modules are imported when one is made, so that a run needs the
packages of its own environment alone."""

from collections.abc import Callable
from typing import Any

from training_core.config.marl.environments import (
    MarlEnvironment,
    RecallCue,
    SimpleAdversary,
    SimplePush,
    SimpleReference,
    SimpleSpread,
    SimpleTag,
)
from training_core.marl.environments.base import VectorEnvironment


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
    from training_core.marl.environments.recall_cue import RecallCueEnvironment

    return RecallCueEnvironment(section, count)


MARL_ENVIRONMENTS: dict[str, Callable[[Any, int], VectorEnvironment]] = {
    "mpe_simple_spread": _spread,
    "mpe_simple_reference": _reference,
    "mpe_simple_push": _push,
    "mpe_simple_adversary": _adversary,
    "mpe_simple_tag": _tag,
    "recall_cue": _recall_cue,
}
"""type -> (config section, how many) -> environments."""


def make_environments(section: MarlEnvironment, count: int) -> VectorEnvironment:
    """`count` environments behind one interface. Raises ConfigError where a package is missing."""
    return MARL_ENVIRONMENTS[section.type](section, count)
