"""Devices that a run requests, to be compared with the cluster's before launch."""

from dataclasses import dataclass

from training_core.config.kinds import AnyConfig
from workers.sizing.placement import ActorSlot, place


@dataclass(frozen=True)
class Demand:
    """Devices that a run occupies."""

    cpus: float
    gpus: float
    bundles: tuple[dict[str, float], ...]
    """Bundles, each of which must fit on one node, e.g. {"CPU": 0.5, "GPU": 1.0}."""

    def __str__(self) -> str:
        words = [f"{self.cpus:g} CPU cores"] if self.cpus else []
        words += [f"{self.gpus:g} GPUs"] if self.gpus else []
        return " and ".join(words) or "nothing"


def demand(config: AnyConfig) -> Demand:
    """The sum over all workers of the run, and the bundles of its placement group."""
    bundles = place(config).bundles
    cpus = sum(bundle.get("CPU", 0.0) for bundle in bundles)
    gpus = sum(bundle.get("GPU", 0.0) for bundle in bundles)
    return Demand(round(cpus, 4), round(gpus, 4), tuple(bundles))


@dataclass(frozen=True)
class Pool:
    """Processes of one policy, or shared ones (environments, coordinator), and their total devices."""

    name: str
    """A policy's name; "environments", "coordinator" and "trainer" for shared processes."""
    kind: str
    """policy, environments, coordinator or trainer (of small networks: acts and learns for all policies)."""
    workers: int
    cpus: float
    gpus: float


def pools(config: AnyConfig) -> list[Pool]:
    """Devices by pool of processes, policies first."""
    slots: dict[tuple[str, str], list[ActorSlot]] = {}
    for actor_slot in place(config).actor_slots:
        shared = "environments" if actor_slot.kind == "environment" else actor_slot.kind
        key = ("policy", actor_slot.policy) if actor_slot.policy else (shared, shared)
        slots.setdefault(key, []).append(actor_slot)
    return [
        Pool(
            name,
            kind,
            len(actor_slots),
            round(sum(actor_slot.cpus for actor_slot in actor_slots), 4),
            round(sum(actor_slot.gpus for actor_slot in actor_slots), 4),
        )
        for (kind, name), actor_slots in slots.items()
    ]
