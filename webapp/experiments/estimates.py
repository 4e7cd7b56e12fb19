"""Estimated resources of an experiment compared with the cluster, and the cost of several runs, before the launch."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from django.conf import settings

from training_core.config.effects import questionable_settings
from training_core.config.kinds import AnyConfig
from troupe_client.documents import experiments as documents
from troupe_client.documents.cluster import ClusterLimit
from troupe_client.documents.sweeps import SweepCost
from webapp.cluster.services import capacity_read, limits_read
from webapp.scheduling.admission import demands_ahead
from workers.launchers.launcher import Capacity
from workers.sizing.changes import change_text, smallest_change, with_change
from workers.sizing.estimates import (
    Estimate,
    NodeMemory,
    estimate,
    largest_card,
    memory_shortages,
    memory_unknown,
    volume,
)
from workers.sizing.placement import amount, demand, fewer_cpus

FITS, WAITS, NEVER, UNKNOWN = "fits", "waits", "never", "unknown"


def appraise(config: AnyConfig, prompt_tokens: int | None = None, first: int = 0) -> documents.Estimate:
    """Estimate a config, of a fork from iteration `first` on, and compare it with the current cluster."""
    capacity = capacity_read()
    card = largest_card(memories(capacity)) if capacity else 0
    estimated = estimate(config, settings.TROUPE_HOME, prompt_tokens, first, card)
    compared = verdict(config, estimated, capacity)
    facts = asdict(estimated)
    wants = facts.pop("demand")
    return documents.Estimate(
        verdict=compared,
        wants=documents.EstimateDevices(cpus=wants["cpus"], gpus=wants["gpus"]),
        cluster=documents.EstimateCluster(**asdict(capacity)) if capacity else None,
        unused=[
            documents.UnusedSetting(path=setting.path, why=setting.why)
            for setting in questionable_settings(config)
        ],
        **facts,
    )


def memories(capacity: Capacity) -> list[NodeMemory]:
    """Return the memory of the cluster's machines."""
    return [NodeMemory(node.memory, node.gpu_memory) for node in capacity.nodes]


def verdict(config: AnyConfig, estimated: Estimate, capacity: Capacity | None) -> documents.EstimateVerdict:
    """Return whether a run fits, and why not: first by its devices, then by its memory, with the change that helps."""
    if capacity is None:
        return _verdict(UNKNOWN, ["The cluster does not answer; a run launched now waits for it."])
    limits = limits_read(estimated.demand, capacity, demands_ahead(capacity))
    nodes = memories(capacity)
    shortages = memory_shortages(estimated, nodes)
    change: dict[str, Any] = {}
    if shortages:
        change = smallest_change(config, settings.TROUPE_HOME, nodes, capacity.gpus, estimated.prompt_tokens)
    if never := [_never(limit, config) for limit in limits if limit.never] + with_change(shortages, change):
        return _verdict(NEVER, never, change)
    waits = [_waits(limit) for limit in limits]
    unknown = [f"Memory not known, {text}." for text in memory_unknown(estimated)]
    if waits:
        return _verdict(WAITS, waits + unknown)
    return _verdict(UNKNOWN if unknown else FITS, unknown)


def _verdict(
    level: str, reasons: Sequence[str], change: dict[str, Any] | None = None
) -> documents.EstimateVerdict:
    return documents.EstimateVerdict(level=level, reasons=list(reasons), change=change or {})


def _never(limit: ClusterLimit, config: AnyConfig) -> str:
    lower = "lower policies.*.devices and resources.environment_cpus"
    if limit.resource == "CPU cores" and (fits := fewer_cpus(config, limit.total)):
        lower = f"set {change_text(fits)}"
    return f"Needs {amount(limit.wants, limit.resource)}; the cluster has {limit.total:g}. Add nodes, or {lower}."


def _waits(limit: ClusterLimit) -> str:
    return f"Needs {amount(limit.wants, limit.resource)}; {limit.free:g} are free after the runs ahead of it."


def cost_of(configs: Sequence[AnyConfig]) -> SweepCost:
    """Return the cost of all configs together."""
    demands = [demand(config) for config in configs]
    return SweepCost(
        runs=len(configs),
        iterations=sum(config.run.iterations for config in configs),
        answers=sum(config.run.iterations * volume(config).answers for config in configs),
        tokens=sum(volume(config).tokens_total for config in configs),
        cpus=max((need.cpus for need in demands), default=0.0),
        gpus=max((need.gpus for need in demands), default=0.0),
    )
