"""What a run costs, estimated before launch: memory per worker, compared with that of the machines; episodes and samples per iteration.

Free of torch: model sizes are read from their folders. Unknown sizes are reported as unknown.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

from training_core.config.engines import with_engines
from training_core.config.kinds import AnyConfig
from training_core.config.rollout import TurnTree
from training_core.config.run import RunConfig
from training_core.errors import Advice, ModelError
from training_core.llm.base_models.packaged import PACKAGED_MODELS, packaged_shape
from training_core.llm.base_models.published import PUBLISHED
from training_core.llm.base_models.registry import model_folder
from training_core.llm.base_models.tiny import tiny_folder, tiny_shape
from training_core.llm.generation.engine_config import Torch
from training_core.llm.learning import memory
from training_core.llm.learning.learner_config import Deepspeed
from training_core.llm.models.shape import ModelShape, read_shape
from workers.sizing.duration import Duration, duration
from workers.sizing.placement import ActorSlot, Demand, Pool, SlotKind, demand, on_evaluator, place, pools

PROMPT_TOKENS = 512
"""Assumed length of a prompt by default."""
AUTO_TOKENS = tuple(2**power for power in range(9, 15))
AUTO_SEQUENCES = tuple(2**power for power in range(3, 10))
"""Values of micro_batch_tokens and max_batch that "auto" may stand for on a GPU."""
AUTO_SPARE = 0.2
"""Share of a device's memory that these leave free: for the runtime, the allocator, and errors of the estimate."""


@dataclass(frozen=True)
class WorkerMemory:
    """Maximum memory of each of a policy's workers of one kind, in bytes."""

    kind: SlotKind
    workers: int
    cpus: float
    gpus: float
    """Of one worker; 0 means CPU."""
    parts: dict[str, int]
    """weights, reference, optimizer: always, but with learner.offload the optimizer only during updates; gradients: during updates,
    with activations and logits in the passes, and gradient_copies (fp32) in the optimiser step; kv_cache and engine_weights
    (vLLM's own copy): during generation; kv_cache of the torch engine on a GPU always, but without learner.offload.
    """
    peak: int
    """Maximum over the phases."""
    host: int = 0
    """Main memory of a worker on a GPU for what learner.offload moves to the host."""


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
    sizes: dict[str, int] = field(default_factory=dict)
    """micro_batch_tokens (of a trained policy) and max_batch: the configured numbers, or those that "auto" stands for."""
    published: bool = False
    """Whether the sizes are the published ones of the model, which this machine does not have."""


@dataclass(frozen=True)
class Volume:
    """Numbers of episodes and samples; upper bounds, since episodes may end early."""

    episodes: int
    """Training episodes per iteration: one path through each task's tree, or one per member of a task's group."""
    answers: int
    """Sampled answers per iteration, with those of continuations."""
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
    """Training answers and their continuations, of all its iterations."""


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


def estimate(
    config: AnyConfig, home: Path, prompt_tokens: int | None = None, first: int = 0, card: int = 0
) -> Estimate:
    """The estimates. Models made by Troupe are searched under `home`; prompts are assumed to have `prompt_tokens` tokens.

    A fork continues from iteration `first`. Sizes that are "auto" follow from `card`, the memory of a GPU in bytes; if it is
    0, they are those of the CPU.
    """
    prompt = PROMPT_TOKENS if prompt_tokens is None else prompt_tokens
    config, engines = with_engines(config)
    policies = [_policy(name, cast(RunConfig, config), home, prompt, card, engines) for name in config.models]
    amount = volume(config, first)
    seconds = _duration(cast(RunConfig, config), policies, amount, prompt) if policies else None
    return Estimate(demand(config), pools(config), policies, amount, seconds, prompt)


def _duration(
    config: RunConfig, policies: Sequence[PolicyMemory], amount: Volume, prompt: int
) -> Duration | None:
    parameters = {policy.policy: policy.parameters for policy in policies if policy.parameters}
    rounds = config.run.iterations - amount.first_iteration, amount.evaluations
    return duration(config, parameters, prompt, rounds, amount.evaluation_episodes)


def volume(config: AnyConfig, first: int = 0) -> Volume:
    """Computed as tasks x candidates x turns x roles and their continuations; for small networks, environments x steps.

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
        answers=math.prod(config.batch_factors.values()) + sum(config.continued_answers.values()),
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


class NotDownloaded(ModelError):
    """This machine does not have the model."""


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
        raise NotDownloaded(
            "this machine does not have the model; its size will be known after the model has been downloaded"
        )
    return read_shape(cached)


def sizes_of(model: str, config: RunConfig, home: Path) -> tuple[ModelShape, bool]:
    """The same, and whether they are the published ones of a model that this machine does not have."""
    try:
        return model_shape(model, config, home), False
    except NotDownloaded:
        if model not in PUBLISHED:
            raise
        return PUBLISHED[model], True


def _cached(model: str) -> Path | None:
    """The newest download of a hub id; does not access the network."""
    from huggingface_hub import try_to_load_from_cache
    from huggingface_hub.errors import HFValidationError

    try:
        path = try_to_load_from_cache(model, "config.json")
    except HFValidationError:
        return None
    return Path(path).parent if isinstance(path, str) else None


def with_sizes(config: RunConfig, policy: str, home: Path, card: int) -> RunConfig:
    """The config with numbers in place of the policy's sizes that are "auto", on a GPU with `card` bytes of memory.

    If the model's size is not known, they are those of the CPU.
    """
    section = config.policies[policy]
    try:
        shape, _ = sizes_of(section.model, config, home)
    except ModelError:
        return _sized(config, policy, section.learner.pass_tokens, section.engine.sequences)
    return _with_sizes(config, policy, shape, _prompt(policy, config, shape, PROMPT_TOKENS), card)


def _with_sizes(config: RunConfig, policy: str, shape: ModelShape, prompt: int, card: int) -> RunConfig:
    config = _with_offload(config, policy, shape, prompt, card)
    section = config.policies[policy]
    tokens, sequences = section.learner.pass_tokens, section.engine.sequences
    for kind, slots in _slots(policy, config).items():
        room = card * min(slots[0].gpus, 1.0) * (1 - AUTO_SPARE)
        if not room:
            continue
        room -= sum(_constant(kind, slots, config, shape).values())
        learns = _learns(kind, policy, config)
        together = learns and kind == "policy" and _store_stays(policy, config)
        if learns and section.learner.micro_batch_tokens == "auto":
            store = _kv_cache(policy, config, shape, prompt) if together else 0
            tokens = _most_tokens(config, policy, shape, prompt, room - min(store, room / 2))
        if kind != "update" and section.engine.max_batch == "auto" and section.engine.weights == "shared":
            sized = _sized(config, policy, tokens, sequences)
            room -= _peak_of_update(_updating(policy, sized, shape, prompt, filled=True)) if together else 0
            sequences = _most_sequences(config, policy, shape, prompt, room)
    return _sized(config, policy, tokens, sequences)


def _with_offload(config: RunConfig, policy: str, shape: ModelShape, prompt: int, card: int) -> RunConfig:
    """The config with "on" or "off" in place of an offload that is "auto": on, if the usual sizes do not fit otherwise."""
    offload = config.policies[policy].learner.offload
    off = _changed(config, policy, {"offload": "off"}, {})
    if not _could_offload(policy, config) or (offload == "auto" and not card):
        return off
    if offload != "auto":
        return config
    (slots,) = _slots(policy, config).values()
    room = card * min(slots[0].gpus, 1.0) * (1 - AUTO_SPARE)
    short = _workers(slots[0].kind, slots, off, shape, prompt).peak > room
    return _changed(config, policy, {"offload": "on"}, {}) if short else off


def _most_tokens(config: RunConfig, policy: str, shape: ModelShape, prompt: int, room: float) -> int:
    """The most tokens of a full forward pass, however long the prompts are."""
    sequences = config.policies[policy].engine.sequences

    def needed(tokens: int) -> int:
        sized = _sized(config, policy, tokens, sequences)
        return _peak_of_update(_updating(policy, sized, shape, prompt, filled=True))

    return _largest(AUTO_TOKENS, needed, room)


def _most_sequences(config: RunConfig, policy: str, shape: ModelShape, prompt: int, room: float) -> int:
    tokens = config.policies[policy].learner.pass_tokens

    def needed(sequences: int) -> int:
        return _kv_cache(policy, _sized(config, policy, tokens, sequences), shape, prompt)

    return _largest(AUTO_SEQUENCES, needed, room)


def _largest(sizes: Sequence[int], needed: Callable[[int], int], room: float) -> int:
    """The largest of the sizes, which grow, that needs no more than `room`; the smallest if none does."""
    return next((size for size in reversed(sizes) if needed(size) <= room), sizes[0])


def _sized(config: RunConfig, policy: str, tokens: int, sequences: int) -> RunConfig:
    return _changed(config, policy, {"micro_batch_tokens": tokens}, {"max_batch": sequences})


def _changed(
    config: RunConfig, policy: str, of_learner: dict[str, Any], of_engine: dict[str, Any]
) -> RunConfig:
    section = config.policies[policy]
    learner = section.learner.model_copy(update=of_learner)
    engine = section.engine.model_copy(update=of_engine)
    sized = section.model_copy(update={"learner": learner, "engine": engine})
    return config.model_copy(update={"policies": {**config.policies, policy: sized}})


def _prompt(policy: str, config: RunConfig, shape: ModelShape, prompt: int) -> int:
    """The assumed length of prompts, if the model's context has so many positions."""
    longest = max(role.sampling.max_tokens for role in config.team.roles.values() if role.policy == policy)
    return min(prompt, max(shape.context - longest, 1)) if shape.context else prompt


def _slots(policy: str, config: RunConfig) -> dict[SlotKind, list[ActorSlot]]:
    by_kind: dict[SlotKind, list[ActorSlot]] = {}
    for actor_slot in place(config).actor_slots:
        if actor_slot.policy == policy:
            by_kind.setdefault(actor_slot.kind, []).append(actor_slot)
    return by_kind


def _policy(
    name: str, config: RunConfig, home: Path, prompt: int, card: int, engines: Mapping[str, str]
) -> PolicyMemory:
    section = config.policies[name]
    precision, engine = section.learner.precision, engines.get(name, section.engine.type)
    try:
        shape, published = sizes_of(section.model, config, home)
    except ModelError as error:
        return PolicyMemory(name, section.model, precision, None, [], engine, str(error))
    prompt = _prompt(name, config, shape, prompt)
    evaluator = _evaluator(name, config, shape, prompt, card) if config.evaluates_beside else []
    config = _with_sizes(config, name, shape, prompt, card)
    section = config.policies[name]
    sizes = {"max_batch": section.engine.sequences}
    if name in config.trained_policies:
        sizes = {"micro_batch_tokens": section.learner.pass_tokens} | sizes
    workers = [_workers(kind, slots, config, shape, prompt) for kind, slots in _slots(name, config).items()]
    workers += evaluator
    return PolicyMemory(
        name, section.model, precision, shape.parameters, workers, engine, sizes=sizes, published=published
    )


def _evaluator(name: str, config: RunConfig, shape: ModelShape, prompt: int, card: int) -> list[WorkerMemory]:
    """The policy's part of the evaluator, which generates as a rollout worker does."""
    config = _with_sizes(on_evaluator(config), name, shape, prompt, card)
    (slot,) = place(config).of("rollout", name)
    return [replace(_workers("rollout", [slot], config, shape, prompt), kind="evaluator")]


def _workers(
    kind: SlotKind, actor_slots: list[ActorSlot], config: RunConfig, shape: ModelShape, prompt: int
) -> WorkerMemory:
    policy = actor_slots[0].policy
    learns = _learns(kind, policy, config)
    constant = _constant(kind, actor_slots, config, shape)
    updating = _updating(policy, config, shape, prompt) if learns else {}
    host = updating.get("optimizer", 0)
    generating = _generating(policy, config, shape, prompt) if kind != "update" else {}
    store = generating.get("kv_cache", 0) if _store_stays(policy, config) else 0
    return WorkerMemory(
        kind=kind,
        workers=len(actor_slots),
        cpus=actor_slots[0].cpus,
        gpus=actor_slots[0].gpus,
        parts=constant | updating | generating,
        peak=sum(constant.values()) + max(_peak_of_update(updating) + store, sum(generating.values())),
        host=host,
    )


def _learns(kind: SlotKind, policy: str, config: RunConfig) -> bool:
    return kind != "rollout" and policy in config.trained_policies


def _constant(
    kind: SlotKind, actor_slots: list[ActorSlot], config: RunConfig, shape: ModelShape
) -> dict[str, int]:
    """Memory that a worker always needs."""
    policy = actor_slots[0].policy
    section = config.policies[policy]
    learner, precision = section.learner, section.learner.precision
    weights = memory.weights(shape, precision)
    if not _learns(kind, policy, config):
        return {"weights": weights}
    constant = {"weights": memory.spread(weights, learner, 3, len(actor_slots))}
    if config.algorithm.kl_coefficient > 0:
        shared = section.adapter.type == "lora" and constant["weights"] == weights
        constant["reference"] = 0 if shared else weights
    return constant if _offloads(policy, config) else constant | _optimizer(policy, config, shape)


def _offloads(policy: str, config: RunConfig) -> bool:
    """Whether the optimiser's states are on the device during updates only."""
    return config.policies[policy].learner.offload == "on" and _could_offload(policy, config)


def _store_stays(policy: str, config: RunConfig) -> bool:
    """Whether an engine's keys and values are on the device during updates, too."""
    return _has_fixed_steps(policy, config) and not _offloads(policy, config)


def _has_fixed_steps(policy: str, config: RunConfig) -> bool:
    """Whether the torch engine's steps have fixed shapes, so that its store remains after a call."""
    engine, on_gpu = config.policies[policy].engine, config.policies[policy].devices.rollout_gpus > 0
    return isinstance(engine, Torch) and (
        engine.static_shapes == "on" or (engine.static_shapes == "auto" and on_gpu)
    )


def _could_offload(policy: str, config: RunConfig) -> bool:
    section = config.policies[policy]
    generates_too = section.devices.placement == "colocated" and section.devices.rollout_gpus > 0
    return section.learner.can_offload and generates_too and policy in config.trained_policies


def _optimizer(policy: str, config: RunConfig, shape: ModelShape) -> dict[str, int]:
    section = config.policies[policy]
    learner, processes = section.learner, section.devices.update_workers
    # ZeRO has fp32 copies of fp32 weights, too
    copies = isinstance(learner, Deepspeed) and learner.zero_stage > 0
    precision = "bf16" if copies else learner.precision
    optimizer = memory.optimizer(memory.adapted(shape, section.adapter), precision)
    return {"optimizer": memory.spread(optimizer, learner, 1, processes)}


def _peak_of_update(parts: dict[str, int]) -> int:
    """The passes have activations and logits, the optimiser step that follows them the copies of the gradients."""
    copies = parts.get("gradient_copies", 0)
    return max(sum(parts.values()) - copies, parts.get("optimizer", 0) + parts.get("gradients", 0) + copies)


def _updating(
    policy: str, config: RunConfig, shape: ModelShape, prompt: int, *, filled: bool = False
) -> dict[str, int]:
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
    tokens, longest, places = memory.micro_batch(learner, text, filled=filled)
    states = _optimizer(policy, config, shape) if _offloads(policy, config) else {}
    return (
        states
        | {
            "gradients": memory.spread(memory.gradients(trained, learner.precision), learner, 2, processes),
            "activations": memory.activations(
                shape, learner.precision, tokens, longest, recomputed=learner.activation_checkpointing
            ),
            "logits": memory.output_layer(shape, learner.precision, places, device),
        }
        | ({"gradient_copies": memory.spread(copies, learner, 2, processes)} if copies else {})
    )


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
    """KV cache of the largest batch, a training turn's or an evaluation's: that of sequences in a row each, or the torch engine's."""
    section, engine = config.policies[policy], config.policies[policy].engine
    workers, answers = section.devices.rollout_workers, config.rollout.group_size
    response = max(role.sampling.max_tokens for role in config.team.roles.values() if role.policy == policy)
    copies = config.workflow.continuations if isinstance(config.workflow, TurnTree) else 1
    most = max(config.rollout.tasks * answers * copies, config.evaluation.episodes)
    tokens = min(engine.sequences, -(-most // workers)) * (prompt + response)
    if isinstance(engine, Torch):
        together = answers if config.workflow.type == "turn_tree" else 1
        fixed = _has_fixed_steps(policy, config)
        for count, candidates in (
            (config.rollout.tasks * answers // together, together),
            (config.evaluation.episodes, 1),
        ):
            call = memory.Call(max(-(-count // workers), 1), candidates, prompt, response)
            tokens = max(tokens, memory.tree_tokens(call, engine.sequences, fixed=fixed))
    return memory.kv_cache(shape, section.learner.precision, tokens)


SPARE = 0.1
"""Share of a device's memory reserved for the runtime and the allocator."""


@dataclass(frozen=True)
class NodeMemory:
    """Memory of one machine, in bytes; 0 if it is not known."""

    main: int
    gpu: int
    """Of its smallest GPU; 0 also if it has none."""


def largest_card(nodes: Sequence[NodeMemory]) -> int:
    """Memory of the largest GPU in bytes; 0 if none is known."""
    return max((node.gpu for node in nodes), default=0)


def memory_shortages(estimated: Estimate, nodes: Sequence[NodeMemory]) -> list[Advice]:
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


def _too_little_main_memory(estimated: Estimate, nodes: Sequence[NodeMemory]) -> list[Advice]:
    there = sum(node.main for node in nodes)
    on_cpu = [
        (worker.peak * worker.workers, policy, worker)
        for policy in estimated.policies
        for worker in policy.workers
        if not worker.gpus
    ]
    copies = sum(worker.host * worker.workers for policy in estimated.policies for worker in policy.workers)
    whole = sum(peak for peak, _, _ in on_cpu) + copies
    if not there or any(not node.main for node in nodes) or whole <= there * (1 - SPARE):
        return []
    if not on_cpu:
        return [
            Advice(
                f"Optimiser states on the host need {size_text(whole)}, and {size_text(there)} of main memory are available",
                'set policies.*.learner.offload = "off"',
            )
        ]
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


KINDS = {"policy": "rollout and update", "rollout": "rollout", "update": "update", "evaluator": "evaluation"}
"""Labels of worker kinds."""
PARTS = {
    "weights": "weights",
    "optimizer": "optimiser states",
    "gradients": "gradients",
    "gradient_copies": "the optimiser step's gradients in fp32",
    "activations": "activations",
    "logits": "logits",
    "kv_cache": "the KV cache",
    "reference": "the base model for the KL penalty",
    "engine_weights": "vLLM's copy of the weights",
}
"""Labels of memory parts, in display order. The first seven have colours of their own."""
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
