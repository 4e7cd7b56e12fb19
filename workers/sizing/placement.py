"""Which process of a run occupies what: a pure function of the config, with no Ray in it.

All processes of a run sit in one placement group, so that a run gets all of its devices at once or waits.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from training_core.config.kinds import AnyConfig
from training_core.config.marl.run import MarlConfig
from training_core.config.models import Devices

ROUTER_CPUS = 0.1
"""CPU cores that the router is scheduled with; it waits for others most of the time."""

SeatKind = Literal["policy", "rollout", "update", "router", "trainer", "environment"]


@dataclass(frozen=True)
class Seat:
    """One process of the run and what it occupies."""

    name: str
    """Readable and unique within the run, e.g. "rollout-planner-0"."""
    kind: SeatKind
    policy: str
    """Empty for processes that serve all policies."""
    cpus: float
    gpus: float
    bundle: int | None
    """Place in the placement group; None for a seat that asks for nothing."""

    @property
    def resources(self) -> dict[str, float]:
        """What the seat asks for, without zeros."""
        wanted = {"CPU": self.cpus, "GPU": self.gpus}
        return {name: amount for name, amount in wanted.items() if amount > 0}


@dataclass(frozen=True)
class Placement:
    """Every seat of a run; those that ask for something have a bundle each."""

    seats: tuple[Seat, ...]

    @property
    def bundles(self) -> list[dict[str, float]]:
        """The placement group's bundles, in order."""
        return [seat.resources for seat in self.seats if seat.bundle is not None]

    def of(self, kind: SeatKind, policy: str = "") -> list[Seat]:
        """Seats of one kind (and policy, where it has one), in order."""
        return [seat for seat in self.seats if seat.kind == kind and seat.policy == policy]


def place(config: AnyConfig) -> Placement:
    """Seats of all workers: slow starters (those that hold models) first."""
    seats: list[Seat] = []
    bundles = 0
    for name, kind, policy, cpus, gpus in _wanted(config):
        asks = cpus > 0 or gpus > 0
        seats.append(Seat(name, kind, policy, cpus, gpus, bundles if asks else None))
        bundles += asks
    return Placement(tuple(seats))


def _wanted(config: AnyConfig) -> Iterator[tuple[str, SeatKind, str, float, float]]:
    if isinstance(config, MarlConfig):
        yield "trainer", "trainer", "", config.resources.cpus, config.resources.gpus
        yield from _environments(config.resources.environment_workers, config.resources.environment_cpus)
        return
    for policy in config.used_policies:
        yield from _pool(policy, config.policies[policy].devices, trained=policy in config.trained_policies)
    yield "router", "router", "", ROUTER_CPUS, 0.0
    yield from _environments(config.resources.environment_workers, config.resources.environment_cpus)


def _environments(count: int, cpus: float) -> Iterator[tuple[str, SeatKind, str, float, float]]:
    for index in range(count):
        yield f"environment-{index}", "environment", "", cpus, 0.0


def _pool(
    policy: str, devices: Devices, *, trained: bool
) -> Iterator[tuple[str, SeatKind, str, float, float]]:
    """One policy's devices: a single seat when colocated, else rollout seats and (if trained) update seats."""
    if devices.placement == "colocated":
        yield f"policy-{policy}", "policy", policy, devices.rollout_cpus, devices.rollout_gpus
        return
    if trained:
        for rank in range(devices.update_workers):
            name = f"update-{policy}-{rank}" if devices.update_workers > 1 else f"update-{policy}"
            yield name, "update", policy, devices.update_cpus, devices.update_gpus
    for index in range(devices.rollout_workers):
        yield f"rollout-{policy}-{index}", "rollout", policy, devices.rollout_cpus, devices.rollout_gpus
