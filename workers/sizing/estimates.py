"""What a run costs, estimated before launch: memory per worker, compared with that of the machines; episodes and samples per iteration.

Free of torch: model sizes are read from their folders. Unknown sizes are reported as unknown.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from training_core.config.engines import with_engines
from training_core.config.kinds import AnyConfig
from training_core.config.run import RunConfig
from training_core.errors import Advice, ModelError
from training_core.llm.base_models.packaged import PACKAGED_MODELS, packaged_shape
from training_core.llm.base_models.registry import model_folder
from training_core.llm.base_models.tiny import tiny_folder, tiny_shape
from training_core.llm.learning import memory
from training_core.llm.learning.learner_config import Deepspeed
from training_core.llm.models.shape import ModelShape, read_shape
from workers.sizing.duration import Duration, duration
from workers.sizing.placement import ActorSlot, Demand, Pool, SlotKind, demand, place, pools

PROMPT_TOKENS = 512
"""Assumed length of a prompt by default."""


@dataclass(frozen=True)
class WorkerMemory:
    """Maximum memory of each of a policy's workers of one kind, in bytes."""

    kind: SlotKind
    workers: int
    cpus: float
    gpus: float
    """Of one worker; 0 means CPU."""
    parts: dict[str, int]
    """weights, reference, optimizer: always; gradients: during updates, with activations and logits in the passes, and
    gradient_copies (fp32) in the optimiser step; kv_cache and engine_weights (vLLM's own copy): during generation."""
    peak: int
    """Maximum over the phases."""


@dataclass(frozen=True)
class PolicyMemory:
    """Memory of one policy's workers."""

    policy: str
    model: str
    precision: str
    parameters: int | None
    workers: list[WorkerMemory]
    engine: str
    """What generates; for engine.type = "auto" with the reason, as this machine would decide."""
    unknown: str = ""
    """Reason why the model's size is unknown."""


@dataclass(frozen=True)
class Volume:
    """Numbers of episodes and samples; upper bounds, since episodes may end early."""

    episodes: int
    """Training episodes per iteration: one path through each task's tree, or one per member of a task's group."""
    answers: int
    """Sampled answers per iteration."""
    tokens: int
    """Tokens of those answers, without prompts."""
    first_iteration: int
    """Iterations that the run does not repeat: those before a fork's checkpoint."""
    evaluations: int
    """Evaluations of all its iterations, including the first one (of the base model or the checkpoint) and the last one."""
    evaluation_episodes: int
    """Per evaluation."""
    episodes_total: int
    """Training and evaluation over all its iterations."""
    tokens_total: int
    """Training answers of all its iterations."""


@dataclass(frozen=True)
class Estimate:
    """Estimates of a run."""

    demand: Demand
    pools: list[Pool]
    policies: list[PolicyMemory]
    volume: Volume
    duration: Duration | None
    """None for small networks, and if it is not known."""
    prompt_tokens: int
    """Prompt length that memory was computed with, unless a model's context is shorter."""


def estimate(config: AnyConfig, home: Path, prompt_tokens: int | None = None, first: int = 0) -> Estimate:
    """The estimates. Models made by Troupe are searched under `home`; prompts are assumed to have `prompt_tokens` tokens.

    A fork continues from iteration `first`.
    """
    prompt = PROMPT_TOKENS if prompt_tokens is None else prompt_tokens
    config, engines = with_engines(config)
    policies = [_policy(name, cast(RunConfig, config), home, prompt, engines) for name in config.models]
    amount = volume(config, first)
    seconds = _duration(config, policies, amount, prompt) if isinstance(config, RunConfig) else None
    return Estimate(demand(config), pools(config), policies, amount, seconds, prompt)


def _duration(
    config: RunConfig, policies: Sequence[PolicyMemory], amount: Volume, prompt: int
) -> Duration | None:
    parameters = {policy.policy: policy.parameters for policy in policies if policy.parameters}
    rounds = config.run.iterations - amount.first_iteration, amount.evaluations
    return duration(config, parameters, prompt, rounds, amount.evaluation_episodes)


def volume(config: AnyConfig, first: int = 0) -> Volume:
    """Computed as tasks x candidates x turns x roles; for small networks, environments x steps.

    The totals are of the iterations after `first`.
    """
    episodes, tokens, iterations = (
        config.episodes_per_iteration,
        config.tokens_per_iteration,
        max(config.run.iterations - first, 0),
    )
    evaluations, per_evaluation = _evaluations(config, first)
    return Volume(
        episodes=episodes,
        answers=math.prod(config.batch_factors.values()),
        tokens=tokens,
        first_iteration=first,
        evaluations=evaluations,
        evaluation_episodes=per_evaluation,
        episodes_total=iterations * episodes + evaluations * per_evaluation,
        tokens_total=iterations * tokens,
    )


def _evaluations(config: AnyConfig, first: int) -> tuple[int, int]:
    """Number of evaluations from iteration `first` on, and episodes of each."""
    every = config.evaluation.every
    evaluations = 1 + math.ceil(config.run.iterations / every) - first // every if every else 0
    greedy = config.evaluation_episodes("eval") * config.evaluation.greedy
    return evaluations, greedy + config.evaluation_episodes("eval_sampled") * config.evaluation.sampled


def model_shape(model: str, config: RunConfig, home: Path) -> ModelShape:
    """Sizes of a policy's model on this machine: made by Troupe, a folder, or in the hub's cache.

    Raises ModelError if it is none of these, or cannot be read.
    """
    if model == "tiny":
        made = tiny_folder(config.environment, home)
        return read_shape(made) if made.is_dir() else tiny_shape(config.environment)
    if model in PACKAGED_MODELS:
        return packaged_shape(model)
    folder = model_folder(model, home, anywhere=False)
    if folder is not None:
        return read_shape(folder)
    cached = _cached(model)
    if cached is None:
        raise ModelError(
            "this machine does not have the model; its size will be known after the model has been downloaded"
        )
    return read_shape(cached)


def _cached(model: str) -> Path | None:
    """The newest download of a hub id; does not access the network."""
    from huggingface_hub import try_to_load_from_cache
    from huggingface_hub.errors import HFValidationError

    try:
        path = try_to_load_from_cache(model, "config.json")
    except HFValidationError:
        return None
    return Path(path).parent if isinstance(path, str) else None


def _policy(
    name: str, config: RunConfig, home: Path, prompt: int, engines: Mapping[str, str]
) -> PolicyMemory:
    section = config.policies[name]
    precision, engine = section.learner.precision, engines.get(name, section.engine.type)
    try:
        shape = model_shape(section.model, config, home)
    except ModelError as error:
        return PolicyMemory(name, section.model, precision, None, [], engine, str(error))
    longest = max(role.sampling.max_tokens for role in config.team.roles.values() if role.policy == name)
    prompt = min(prompt, max(shape.context - longest, 1)) if shape.context else prompt
    actor_slots = [actor_slot for actor_slot in place(config).actor_slots if actor_slot.policy == name]
    by_kind: dict[SlotKind, list[ActorSlot]] = {}
    for actor_slot in actor_slots:
        by_kind.setdefault(actor_slot.kind, []).append(actor_slot)
    workers = [_workers(kind, group, config, shape, prompt) for kind, group in by_kind.items()]
    return PolicyMemory(name, section.model, precision, shape.parameters, workers, engine)


def _workers(
    kind: SlotKind, actor_slots: list[ActorSlot], config: RunConfig, shape: ModelShape, prompt: int
) -> WorkerMemory:
    policy = actor_slots[0].policy
    learns = kind != "rollout" and policy in config.trained_policies
    section = config.policies[policy]
    learner, precision = section.learner, section.learner.precision
    weights = memory.weights(shape, precision)
    constant = {"weights": memory.spread(weights, learner, 3, len(actor_slots)) if learns else weights}
    updating: dict[str, int] = {}
    if learns:
        if config.algorithm.kl_coefficient > 0:
            shared = section.adapter.type == "lora" and constant["weights"] == weights
            constant["reference"] = 0 if shared else weights
        trained = memory.adapted(shape, section.adapter)
        copies = (
            isinstance(learner, Deepspeed) and learner.zero_stage > 0
        )  # ZeRO has fp32 copies of fp32 weights, too
        optimizer = memory.optimizer(trained, "bf16" if copies else precision)
        constant["optimizer"] = memory.spread(optimizer, learner, 1, len(actor_slots))
        updating = _updating(policy, config, shape, prompt)
    generating = _generating(policy, config, shape, prompt) if kind != "update" else {}
    return WorkerMemory(
        kind=kind,
        workers=len(actor_slots),
        cpus=actor_slots[0].cpus,
        gpus=actor_slots[0].gpus,
        parts=constant | updating | generating,
        peak=sum(constant.values()) + max(_peak_of_update(updating), sum(generating.values())),
    )


def _peak_of_update(parts: dict[str, int]) -> int:
    """The passes have activations and logits, the optimiser step that follows them the copies of the gradients."""
    copies = parts.get("gradient_copies", 0)
    return max(sum(parts.values()) - copies, parts.get("gradients", 0) + copies)


def _updating(policy: str, config: RunConfig, shape: ModelShape, prompt: int) -> dict[str, int]:
    learner, group = config.policies[policy].learner, config.rollout.group_size
    speakers = [role for role in config.team.roles.values() if role.policy == policy and role.trained]
    answers = config.rollout.tasks * group * config.max_turns * len(speakers)
    response = max(role.sampling.max_tokens for role in speakers)
    text = memory.Text(prompt, response, group, -(-answers // learner.minibatches))
    trained = memory.adapted(shape, config.policies[policy].adapter)
    devices = config.policies[policy].devices
    gpus = devices.update_gpus if devices.placement == "apart" else devices.rollout_gpus
    device = "cuda" if gpus else "cpu"
    processes = devices.update_workers
    whole = processes > 1 or isinstance(learner, Deepspeed)
    copies = memory.gradient_copies(trained, learner.precision, whole=whole)
    tokens, longest, places = memory.micro_batch(learner, text)
    return {
        "gradients": memory.spread(memory.gradients(trained, learner.precision), learner, 2, processes),
        "activations": memory.activations(
            shape, learner.precision, tokens, longest, recomputed=learner.activation_checkpointing
        ),
        "logits": memory.output_layer(shape, learner.precision, places, device),
    } | ({"gradient_copies": memory.spread(copies, learner, 2, processes)} if copies else {})


def _generating(policy: str, config: RunConfig, shape: ModelShape, prompt: int) -> dict[str, int]:
    """Memory in addition to the model's: of the engine's own copy, and of its cache; a server needs none here."""
    section = config.policies[policy]
    if section.engine.weights == "remote":
        return {}
    copy = {"engine_weights": memory.weights(shape, section.learner.precision)}
    return (copy if section.engine.weights == "copied" else {}) | {
        "kv_cache": _kv_cache(policy, config, shape, prompt)
    }


def _kv_cache(policy: str, config: RunConfig, shape: ModelShape, prompt: int) -> int:
    """KV cache of the largest batch: a training turn's, or an evaluation's."""
    section = config.policies[policy]
    most = max(config.rollout.tasks * config.rollout.group_size, config.evaluation.episodes)
    workers = section.devices.rollout_workers
    sequences = min(section.engine.max_batch, -(-most // workers))
    response = max(role.sampling.max_tokens for role in config.team.roles.values() if role.policy == policy)
    return memory.kv_cache(shape, section.learner.precision, sequences * (prompt + response))


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
    reason = _too_large(policy, worker, size_text(there))
    return [reason.after(f"Its workers need {size_text(whole)} of main memory. ")]


def _too_large(policy: PolicyMemory, worker: WorkerMemory, there: str) -> Advice:
    part = max(worker.parts, key=lambda name: worker.parts[name])
    return Advice(
        f"A {KINDS[worker.kind]} worker of {policy.policy} needs {size_text(worker.peak)}, and {there} are available. "
        f"Most of it is {PARTS[part]}:",
        f"{REMEDIES[part].format(policy=policy.policy)}.",
    )


KINDS = {"policy": "rollout and update", "rollout": "rollout", "update": "update"}
"""Labels of worker kinds."""
PARTS = {
    "weights": "weights",
    "reference": "the base model for the KL penalty",
    "optimizer": "optimizer states",
    "gradients": "gradients",
    "gradient_copies": "the optimiser step's gradients in fp32",
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
    "gradient_copies": _SMALLER,
    "activations": _SHORTER,
    "logits": _SHORTER,
    "kv_cache": "lower policies.{policy}.engine.max_batch",
    "engine_weights": _SMALLER,
}


def size_text(count: int) -> str:
    """Format bytes in powers of 1,000: 512 B, 1.4 MB."""
    value, unit = float(count), "B"
    for larger in ("kB", "MB", "GB", "TB"):
        if value < 1000:
            break
        value, unit = value / 1000, larger
    return f"{value:.0f} {unit}" if unit == "B" or value >= 100 else f"{value:.1f} {unit}"
