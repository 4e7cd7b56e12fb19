"""Configs of the multi-particle environments (MPE)."""

from typing import ClassVar, Literal, Self

from pydantic import Field

from training_core.config.base import cross_field
from training_core.marl.environments.environment_config import Wrapped


class Mpe(Wrapped):
    """Settings shared by the multi-particle environments (MPE): from the package mpe2, or from older versions of PettingZoo."""

    max_cycles: int = Field(25, ge=1)
    """Steps of an episode."""
    continuous_actions: bool = False
    """Five continuous forces from 0 to 1 instead of one of five moves."""

    @cross_field
    def _observations_have_no_bounds(self) -> Self:
        if self.supersuit.normalise_observations:
            raise ValueError(
                f"supersuit.normalise_observations: observations of {self.type} have no finite bounds to scale them by. "
                "Remove it; values are normalised by algorithm.normalise_values"
            )
        return self


class NativeMpe(Mpe):
    """MPE environments that Troupe implements vectorised, with the numerical results of mpe2."""

    backend: Literal["native", "mpe2"] = "native"
    """native: vectorised; mpe2: the package's environments, stepped one by one (needs the extra `marl`)."""

    @cross_field
    def _native_ones_are_not_wrapped(self) -> Self:
        for field, remedy in (
            ("strict_agents", "agents never appear or disappear"),
            ("action_masks", "all actions are always allowed"),
        ):
            if self.backend != "mpe2" and not getattr(self, field):
                where = f"on the {self.backend} {self.type}, where {remedy}"
                raise ValueError(
                    f'{field}: has no effect {where}. Remove it, or set environment.backend = "mpe2"'
                )
        return self


class SimpleSpread(NativeMpe):
    """N agents cover N landmarks and avoid collisions."""

    type: Literal["mpe_simple_spread"] = "mpe_simple_spread"
    """MPE simple_spread."""
    backend: Literal["native", "mpe2", "torch"] = "native"  # type: ignore[assignment]  # one more than the others
    """native: vectorised; torch: the same on the networks' device; mpe2: the package's environments (needs the extra `marl`)."""
    num_agents: int = Field(3, ge=1, le=100)
    """Number of agents and of landmarks."""
    local_ratio: float = Field(0.5, ge=0.0, le=1.0)
    """Weight of an agent's own collisions relative to the distance of all landmarks."""

    @cross_field
    def _worlds_on_a_device_are_not_wrapped(self) -> Self:
        if self.backend == "torch" and self.supersuit != type(self.supersuit)():
            raise ValueError(
                'supersuit: backend = "torch" has no wrappers. Remove them, or set environment.backend = "native"'
            )
        return self


class SimpleReference(NativeMpe):
    """Two agents tell each other which landmark to go to."""

    type: Literal["mpe_simple_reference"] = "mpe_simple_reference"
    """MPE simple_reference."""
    local_ratio: float = Field(0.5, ge=0.0, le=1.0)
    """Weight of an agent's own reward relative to the team's."""


class SimplePush(NativeMpe):
    """An agent goes to a landmark and an adversary keeps it away."""

    roles: ClassVar[tuple[str, ...]] = ("adversaries", "good")
    role_preset: ClassVar[str] = "tag_mappo"
    type: Literal["mpe_simple_push"] = "mpe_simple_push"
    """MPE simple_push."""


class SimpleAdversary(NativeMpe):
    """Good agents cover a landmark that an adversary has to guess."""

    roles: ClassVar[tuple[str, ...]] = ("adversaries", "good")
    role_preset: ClassVar[str] = "tag_mappo"
    type: Literal["mpe_simple_adversary"] = "mpe_simple_adversary"
    """MPE simple_adversary."""
    num_agents: int = Field(2, ge=1, le=100)
    """Number of good agents and of landmarks."""


class SimpleTag(NativeMpe):
    """Slow adversaries chase faster good agents around obstacles."""

    roles: ClassVar[tuple[str, ...]] = ("adversaries", "good")
    role_preset: ClassVar[str] = "tag_mappo"
    type: Literal["mpe_simple_tag"] = "mpe_simple_tag"
    """MPE simple_tag (predator and prey)."""
    num_good: int = Field(1, ge=1, le=100)
    """Number of good agents, which flee."""
    num_adversaries: int = Field(3, ge=1, le=100)
    """Number of adversaries, which chase."""
    num_obstacles: int = Field(2, ge=0, le=100)
    """Number of obstacles."""


class SimpleCrypto(Mpe):
    """Alice sends Bob a message encrypted with a shared key; Eve listens."""

    roles: ClassVar[tuple[str, ...]] = ("adversaries", "good")
    role_preset: ClassVar[str] = "tag_mappo"
    type: Literal["mpe_simple_crypto"] = "mpe_simple_crypto"
    """MPE simple_crypto."""


class SimpleWorldComm(Mpe):
    """Tag with food, forests to hide in, and a leader that speaks to the adversaries."""

    roles: ClassVar[tuple[str, ...]] = ("adversaries", "good")
    role_preset: ClassVar[str] = "tag_mappo"
    type: Literal["mpe_simple_world_comm"] = "mpe_simple_world_comm"
    """MPE simple_world_comm."""
    num_good: int = Field(2, ge=1, le=100)
    """Number of good agents."""
    num_adversaries: int = Field(4, ge=1, le=100)
    """Number of adversaries, including the leader."""
    num_obstacles: int = Field(1, ge=0, le=100)
    """Number of obstacles."""
    num_food: int = Field(2, ge=0, le=100)
    """Number of pieces of food."""
    num_forests: int = Field(2, ge=0, le=100)
    """Number of forests."""
