"""Comparison of a run's estimated memory with the memory of machines."""

from collections.abc import Sequence
from dataclasses import dataclass

from workers.sizing.estimates import Estimate, PolicyMemory, WorkerMemory
from workers.sizing.size_text import size_text

SPARE = 0.1
"""Share of a device's memory reserved for the runtime and the allocator."""


@dataclass(frozen=True)
class NodeMemory:
    """Memory of one machine, in bytes; 0 if it is not known."""

    main: int
    gpu: int
    """Of its smallest GPU; 0 also if it has none."""


def memory_shortages(estimated: Estimate, nodes: Sequence[NodeMemory]) -> list[str]:
    """Return the workers too large for every GPU; compares all CPU workers together with main memory."""
    cards = [node.gpu for node in nodes if node.gpu]
    reasons = []
    for policy in estimated.policies:
        for worker in policy.workers:
            share = max(cards, default=0) * min(worker.gpus, 1.0)
            if share and worker.peak > share * (1 - SPARE):
                reasons.append(_too_large(policy, worker, f"{size_text(round(share))} of a GPU"))
    return reasons + _too_little_main_memory(estimated, nodes)


def memory_unknown(estimated: Estimate) -> list[str]:
    """Policies whose memory is not known, each with the reason."""
    return [f"{policy.policy}: {policy.unknown}" for policy in estimated.policies if policy.unknown]


def _too_little_main_memory(estimated: Estimate, nodes: Sequence[NodeMemory]) -> list[str]:
    there = sum(node.main for node in nodes)
    on_cpu = [
        (worker.peak * worker.workers, policy, worker)
        for policy in estimated.policies
        for worker in policy.workers
        if not worker.gpus
    ]
    whole = sum(peak for peak, _, _ in on_cpu)
    if not there or any(not node.main for node in nodes) or whole <= there * (1 - SPARE):
        return []
    _, policy, worker = max(on_cpu, key=lambda candidate: candidate[0])
    return [
        f"Its workers need {size_text(whole)} of main memory. " + _too_large(policy, worker, size_text(there))
    ]


def _too_large(policy: PolicyMemory, worker: WorkerMemory, there: str) -> str:
    part = max(worker.parts, key=lambda name: worker.parts[name])
    return (
        f"A {KINDS[worker.kind]} worker of {policy.policy} needs {size_text(worker.peak)}, and {there} are available. "
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
