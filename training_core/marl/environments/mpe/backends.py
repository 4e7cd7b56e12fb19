"""The multi-particle environments by their `backend`: native, on a device, or of the package mpe2."""

import warnings
from collections.abc import Callable
from typing import Any

from training_core.importing import resolve
from training_core.marl.environments.base import VectorEnvironment
from training_core.marl.environments.config import Mpe, NativeMpe
from training_core.marl.environments.frame_stack import wrap_native
from training_core.marl.environments.packages import import_optional

SIDES: dict[str, tuple[str, ...]] = {"adversaries": ("adversary_",), "good": ("agent_",)}
MEMBERS: dict[str, dict[str, tuple[str, ...]]] = {
    "mpe_simple_spread": {},
    "mpe_simple_reference": {},
    "mpe_simple_crypto": {"adversaries": ("eve",), "good": ("bob", "alice")},
    "mpe_simple_world_comm": {"adversaries": ("leadadversary_", "adversary_"), "good": ("agent_",)},
    "mpe_simple_push": SIDES,
    "mpe_simple_adversary": SIDES,
    "mpe_simple_tag": SIDES,
}
"""type -> agents of each role by name prefix; empty if all cooperate."""
RENAMED = {"mpe_simple_spread": {"num_agents": "N"}, "mpe_simple_adversary": {"num_agents": "N"}}
"""type -> field of its section -> the package's argument, if its name differs."""
NATIVE = {
    "mpe_simple_spread": "SpreadEnvironment",
    "mpe_simple_reference": "ReferenceEnvironment",
    "mpe_simple_push": "PushEnvironment",
    "mpe_simple_adversary": "AdversaryEnvironment",
    "mpe_simple_tag": "TagEnvironment",
}
"""type -> class of scenarios.py."""


def make_native(section: Any, count: int) -> VectorEnvironment:
    """The environments of the section's backend."""
    folder = __name__.rpartition(".")[0]
    if section.backend == "torch":
        on_device: VectorEnvironment = resolve(f"{folder}.torch_spread:TorchSpreadEnvironment")(
            section, count
        )
        return on_device
    if section.backend == "native":
        native = resolve(f"{folder}.scenarios:{NATIVE[section.type]}")
        return wrap_native(native(section, count), section.supersuit)
    import_optional("pettingzoo", section.type)
    return make_mpe2(section, count)


def make_mpe2(section: Mpe, count: int) -> VectorEnvironment:
    """The package's environments, stepped one by one."""
    from training_core.marl.environments.pettingzoo import adapt  # needs gymnasium

    members = MEMBERS[section.type]
    return adapt(
        mpe_maker(section), section, count, section.type, members=members, max_steps=section.max_cycles
    )


def mpe_maker(section: Mpe) -> Callable[[], Any]:
    """A function that constructs one parallel environment for the section. Raises ConfigError if no package provides it."""
    parallel_env = _module(section.type).parallel_env
    own = type(section).model_fields.keys() - NativeMpe.model_fields.keys() - {"type"}
    renamed = RENAMED.get(section.type, {})
    arguments = {renamed.get(name, name): getattr(section, name) for name in own}
    shared = {"max_cycles": section.max_cycles, "continuous_actions": section.continuous_actions}
    return lambda: parallel_env(**shared, **arguments)


def _module(kind: str) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        return import_optional(f"mpe2.{kind.removeprefix('mpe_')}_v3", kind)
