"""Multi-particle environments that Troupe implements: native, or from the package mpe2, as `backend` says."""

from collections.abc import Callable
from typing import Any

from training_core.marl.environments.base import VectorEnvironment
from training_core.marl.environments.frame_stack import wrap_native
from training_core.marl.environments.mpe.adversary import AdversaryEnvironment
from training_core.marl.environments.mpe.push import PushEnvironment
from training_core.marl.environments.mpe.reference import ReferenceEnvironment
from training_core.marl.environments.mpe.spread import SpreadEnvironment
from training_core.marl.environments.mpe.tag import TagEnvironment
from training_core.marl.environments.optional_packages import import_optional

Constructor = Callable[[Any, int], VectorEnvironment]
"""(config section, number of environments) -> environments."""


def _by_backend(native: Constructor) -> Constructor:
    def make(section: Any, count: int) -> VectorEnvironment:
        if section.backend == "native":
            return wrap_native(native(section, count), section.supersuit)
        import_optional("pettingzoo", section.type)
        from training_core.marl.environments.mpe import mpe2  # imports pettingzoo

        return mpe2.make(section, count)

    return make


def _spread(section: Any, count: int) -> VectorEnvironment:
    if section.backend == "torch":
        from training_core.marl.environments.mpe.torch_spread import TorchSpreadEnvironment  # imports torch

        return TorchSpreadEnvironment(section, count)
    return _by_backend(SpreadEnvironment)(section, count)


spread = _spread
reference = _by_backend(ReferenceEnvironment)
push = _by_backend(PushEnvironment)
adversary = _by_backend(AdversaryEnvironment)
tag = _by_backend(TagEnvironment)
