"""Estimated resources of an experiment compared with the cluster, before the launch."""

from dataclasses import asdict, dataclass, field
from typing import Any

from django.conf import settings

from training_core.config.kinds import AnyConfig
from webapp.cluster.selectors import capacity_read, limits_read
from webapp.common.formats import size
from webapp.scheduling.admission import demands_ahead
from workers.launchers.launcher import Capacity
from workers.sizing.estimates import Estimate, PolicyMemory, WorkerMemory, estimate

LONGEST_PROMPT = 1_000_000
"""Maximum prompt length of an estimate."""
SPARE = 0.1
"""Share of a device's memory reserved for the runtime and the allocator."""
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
    never = [_never(limit) for limit in limits if limit["never"]] + _too_little_memory(estimated, capacity)
    if never:
        return Verdict(NEVER, never)
    waits = [_waits(limit) for limit in limits]
    unknown = [
        f"Memory not known, {policy.policy}: {policy.unknown}."
        for policy in estimated.policies
        if policy.unknown
    ]
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


def _never(limit: dict[str, Any]) -> str:
    return (
        f"Needs {limit['wants']:g} {limit['resource']}; the cluster has {limit['total']:g}. "
        "Add nodes, or lower policies.*.devices and resources.environment_cpus."
    )


def _waits(limit: dict[str, Any]) -> str:
    return f"Needs {limit['wants']:g} {limit['resource']}; {limit['free']:g} are free after the runs ahead of it."


def _too_little_memory(estimated: Estimate, capacity: Capacity) -> list[str]:
    """Return the workers too large for every GPU; compares all CPU workers together with main memory."""
    cards = [node.gpu_memory for node in capacity.nodes if node.gpu_memory]
    reasons = []
    for policy in estimated.policies:
        for worker in policy.workers:
            share = max(cards, default=0) * min(worker.gpus, 1.0)
            if share and worker.peak > share * (1 - SPARE):
                reasons.append(_too_large(policy, worker, f"{size(round(share))} of a GPU"))
    return reasons + _too_little_main_memory(estimated, capacity)


def _too_little_main_memory(estimated: Estimate, capacity: Capacity) -> list[str]:
    there = sum(node.memory for node in capacity.nodes)
    on_cpu = [
        (worker.peak * worker.workers, policy, worker)
        for policy in estimated.policies
        for worker in policy.workers
        if not worker.gpus
    ]
    whole = sum(peak for peak, _, _ in on_cpu)
    if not there or any(not node.memory for node in capacity.nodes) or whole <= there * (1 - SPARE):
        return []
    _, policy, worker = max(on_cpu, key=lambda candidate: candidate[0])
    return [f"Its workers need {size(whole)} of main memory. " + _too_large(policy, worker, size(there))]


def _too_large(policy: PolicyMemory, worker: WorkerMemory, there: str) -> str:
    part = max(worker.parts, key=lambda name: worker.parts[name])
    return (
        f"A {KINDS[worker.kind]} worker of {policy.policy} needs {size(worker.peak)}, and {there} are available. "
        f"Most of it is {PARTS[part]}: {REMEDIES[part].format(policy=policy.policy)}."
    )


KINDS = {"policy": "rollout and update", "rollout": "rollout", "update": "update"}
"""Labels of worker kinds."""
PARTS = {
    "weights": "weights",
    "reference": "the base model for the KL penalty",
    "optimizer": "optimizer states",
    "gradients": "gradients",
    "activations": "activations",
    "logits": "logits",
    "kv_cache": "the KV cache",
    "engine_weights": "vLLM's copy of the weights",
}
"""Labels of memory parts, in display order."""
_SMALLER = "choose a smaller policies.{policy}.model"
_SHORTER = "lower policies.{policy}.learner.micro_batch_tokens"
REMEDIES = {
    "weights": _SMALLER,
    "reference": "set algorithm.kl_coefficient = 0, or choose a smaller policies.{policy}.model",
    "optimizer": _SMALLER,
    "gradients": _SMALLER,
    "activations": _SHORTER,
    "logits": _SHORTER,
    "kv_cache": "lower policies.{policy}.engine.max_batch",
    "engine_weights": _SMALLER,
}
