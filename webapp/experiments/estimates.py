"""Estimated resources of an experiment compared with the cluster, before the launch."""

from dataclasses import asdict, dataclass, field
from typing import Any

from django.conf import settings

from training_core.config.kinds import AnyConfig
from troupe_client.documents.cluster import ClusterLimit
from webapp.cluster.services import capacity_read, limits_read
from webapp.scheduling.admission import demands_ahead
from workers.launchers.launcher import Capacity
from workers.sizing.estimates import Estimate, estimate
from workers.sizing.memory_fit import NodeMemory, memory_shortages, memory_unknown

LONGEST_PROMPT = 1_000_000
"""Maximum prompt length of an estimate."""
FITS, WAITS, NEVER, UNKNOWN = "fits", "waits", "never", "unknown"


@dataclass(frozen=True)
class Verdict:
    """Whether the experiment fits on the cluster."""

    level: str
    """fits: now; waits: after other runs; never: not on this cluster; unknown: no cluster answers, or a model's memory is unknown."""
    reasons: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Appraisal:
    """An estimate and its comparison with the cluster."""

    estimate: Estimate
    capacity: Capacity | None
    verdict: Verdict


def appraise(config: AnyConfig, prompt_tokens: int | None = None, first: int = 0) -> Appraisal:
    """Estimate a config, of a fork from iteration `first` on, and compare it with the current cluster."""
    estimated = estimate(config, settings.TROUPE_HOME, prompt_tokens, first)
    capacity = capacity_read()
    return Appraisal(estimated, capacity, verdict(estimated, capacity))


def verdict(estimated: Estimate, capacity: Capacity | None) -> Verdict:
    """Compare the devices first, then the memory."""
    if capacity is None:
        return Verdict(UNKNOWN, ["The cluster does not answer; a run launched now waits for it."])
    limits = limits_read(estimated.demand, capacity, demands_ahead(capacity))
    never = [_never(limit) for limit in limits if limit.never] + memory_shortages(
        estimated, _memories(capacity)
    )
    if never:
        return Verdict(NEVER, never)
    waits = [_waits(limit) for limit in limits]
    unknown = [f"Memory not known, {text}." for text in memory_unknown(estimated)]
    if waits:
        return Verdict(WAITS, waits + unknown)
    return Verdict(UNKNOWN, unknown) if unknown else Verdict(FITS)


def appraisal_document(appraisal: Appraisal) -> dict[str, Any]:
    """JSON shape; sizes in bytes."""
    document = asdict(appraisal.estimate)
    demand = document.pop("demand")
    return {
        "verdict": asdict(appraisal.verdict),
        "wants": {"cpus": demand["cpus"], "gpus": demand["gpus"]},
        "cluster": asdict(appraisal.capacity) if appraisal.capacity else None,
        **document,
    }


def _never(limit: ClusterLimit) -> str:
    return (
        f"Needs {limit.wants:g} {limit.resource}; the cluster has {limit.total:g}. "
        "Add nodes, or lower policies.*.devices and resources.environment_cpus."
    )


def _waits(limit: ClusterLimit) -> str:
    return f"Needs {limit.wants:g} {limit.resource}; {limit.free:g} are free after the runs ahead of it."


def _memories(capacity: Capacity) -> list[NodeMemory]:
    return [NodeMemory(node.memory, node.gpu_memory) for node in capacity.nodes]
