"""Workers of one policy: RolloutWorker generates, UpdateWorker updates, PolicyWorker does both in turn.

The driver imports them to start them as actors and stays free of torch: methods import what needs torch.
"""

import logging
import os
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar, cast
from zlib import crc32

from training_core.config.run import RunConfig
from training_core.errors import StalePolicy
from training_core.llm.base_models.folder_creation import Progress, silent
from training_core.llm.generation.base import (
    Engine,
    SamplingSettings,
    SleepingEngine,
    generate_fitting,
    generate_until_ended,
)
from training_core.llm.serving.batching import Gate
from training_core.seeding import keyed_seed
from training_core.types import Answer, Group, Prompt
from training_core.versions import answer_age
from workers.actors.machine import (
    GIB,
    INTERVAL,
    UtilisationSampler,
    card_memory,
    machine_load,
    peak_memory,
    prepare_process,
)
from workers.protocol import (
    Address,
    Generated,
    PolicyUpdate,
    Ready,
    Span,
    System,
    TokenFigures,
    TransferFailure,
    WorkerSpec,
)
from workers.sizing.estimates import estimate, with_sizes
from workers.sizing.placement import demand

if TYPE_CHECKING:
    from torch import Tensor

    from training_core.llm.learning.update_metrics import GroupAnnotation
    from workers.actors.model_loading import LoadedModel
    from workers.actors.weights import PackedWeights, WeightGroup

log = logging.getLogger(__name__)
Item = TypeVar("Item")


class Worker:
    """A process, or a part of one, that works for one policy.

    The driver imports workers to start them as actors and stays free of torch: methods import what needs torch.
    """

    def __init__(self, spec: WorkerSpec, progress: Progress = silent) -> None:
        self._created = time.time()
        prepare_process(spec.config.resources.threads)
        self._spec = spec
        self._progress = progress
        self._sampler: UtilisationSampler | None = None

    def ping(self) -> int:
        """Return the process id."""
        return os.getpid()

    def _load(self) -> "LoadedModel":
        """Load the base model, and start to monitor the device. Raises ModelError."""
        from workers.actors.model_loading import load

        loaded = load(self._spec, self._created, self._progress)
        if loaded.on_gpu:
            self._spec = replace(self._spec, config=self._with_sizes())
        every = min(INTERVAL, self._spec.config.reporting.system_every)
        threads = self._spec.config.resources.threads
        self._sampler = UtilisationSampler(self._spec.name, threads, on_gpu=loaded.on_gpu, every=every)
        return loaded

    def _with_sizes(self) -> RunConfig:
        """The config with numbers in place of sizes that are "auto", for the memory of this process's GPU."""
        spec = self._spec
        together = max(demand(spec.config).gpus, 1.0) if spec.one_process else 1.0
        return with_sizes(spec.config, spec.policy, spec.home, int(card_memory(spec.gpus) / together))

    def _ready_with_sizes(self, loaded: "LoadedModel", version: int) -> Ready:
        """The result of `start`, on a GPU with the sizes that were chosen for it."""
        section, base = self._spec.section, loaded.base
        if loaded.on_gpu:
            sizes = {
                "micro_batch_tokens": section.learner.pass_tokens,
                "max_batch": section.engine.sequences,
                "offload": section.learner.offload == "on",
            }
            base = base | {"sizes": sizes}
        return Ready(loaded.model_name, base, version, [loaded.span])

    def system(self) -> System:
        """Load of this machine, and of this worker's device since the last call."""
        return System(machine_load(), [self._sampler.take()] if self._sampler else [])

    def close(self) -> None:
        """Stop monitoring the device."""
        if self._sampler:
            self._sampler.close()


@dataclass(frozen=True)
class Checked:
    """Groups that may be trained on, and counts of the check."""

    groups: list[Group]
    dropped: int
    """Number of answers left out."""
    answers: int
    """Number of answers checked."""
    lag: int
    """Sum over all answers of the age of the oldest token, in versions."""
    indices: dict[tuple[str, int], list[int]] = field(default_factory=dict)
    """Of groups with answers left out: the indices of the others, by (episode, turn position)."""


def check_versions(
    groups: Sequence[Group], version: int, policy: str, stale: Literal["error", "drop"], bound: int = 0
) -> Checked:
    """Compare every token's version with the policy's: it may be up to `bound` older, never newer.

    Raises StalePolicy if stale = "error".
    """
    current: list[Group] = []
    indices: dict[tuple[str, int], list[int]] = {}
    answers = lag = dropped = 0
    for group in groups:
        lags = [answer_age(answer, version) for answer in group.answers]
        answers += len(lags)
        lag += sum(abs(item) for item in lags)
        fresh = [index for index, item in enumerate(lags) if 0 <= item <= bound]
        if len(fresh) < len(lags) and stale == "error":
            versions = sorted(
                {number for answer in group.answers for number in answer.learnt(answer.versions)} - {version}
            )
            raise StalePolicy(
                f"policy {policy!r} is at version {version}, but episode {group.episode}, turn {group.turn} has "
                f"tokens of version {', '.join(map(str, versions))}, and rollout.staleness is {bound}",
                remedy='collect again, or set rollout.stale = "drop" to leave such answers out',
            )
        dropped += len(lags) - len(fresh)
        if len(fresh) == len(lags):
            current.append(group)
        elif fresh:
            current.append(_only(group, fresh))
            indices[group.episode, group.turn] = fresh
    return Checked(current, dropped, answers, lag, indices)


def check_weights(have: int, want: int, policy: str, worker: str) -> None:
    """Before generation or an update: the weights must have the requested version. Raises StalePolicy."""
    if have != want:
        raise StalePolicy(
            f"{worker} holds version {have} of policy {policy!r}, but version {want} was asked for",
            remedy="publish the weights before collecting",
        )


def _only(group: Group, indices: list[int]) -> Group:
    return replace(
        group,
        answers=[group.answers[index] for index in indices],
        rewards=[group.rewards[index] for index in indices],
        advantages=[group.advantages[index] for index in indices],
        compared=[group.compared[index] for index in indices] if group.compared else [],
    )


class RolloutWorker(Worker):
    """Holds a copy of the policy's weights; `load_weights` replaces it by newer versions."""

    engine: Engine

    def __init__(self, spec: WorkerSpec, progress: Progress = silent) -> None:
        super().__init__(spec, progress)
        self._gate = Gate()
        self._restored = False
        """Whether the weights of a frozen policy are from a checkpoint."""
        self._started = threading.Event()
        """Set when `start` has ended: weights may arrive while it runs."""
        self._loading = threading.Lock()
        """Held while a version is compared and loaded: two may arrive at the same time."""
        self._group: WeightGroup | None = None
        """Process group through which the update worker broadcasts weights."""

    def start(self, resume_from: Path | None) -> Ready:
        """Load the base model. Trained weights come by `load_weights`; a frozen policy's may be in a checkpoint.

        Raises ModelError, CheckpointError.
        """
        try:
            loaded = self._load()
            self._open_engine(loaded)
            version = self._restore(resume_from) if resume_from else 0
        finally:  # `load_weights` must not wait for a worker that failed to start
            self._started.set()
        return self._ready_with_sizes(loaded, version)

    def generate(self, prompts: list[Prompt], settings: SamplingSettings, version: int) -> Generated:
        """Sample answers for each prompt; concurrent calls run one after another. With `rollout.partial` new weights
        interrupt the answers, which continue with them. A prompt without room for an answer in the model's context gets
        answers without a token.

        Older weights than `version` are allowed if the update leaves such answers out (rollout.stale = "drop") or trains on
        them (rollout.staleness). Raises StalePolicy, EngineFailure.
        """
        rollout = self._spec.config.rollout
        interrupted = (lambda: self._gate.closing) if rollout.partial else None
        spans: list[Span] = []

        def generate_part(unfinished: Sequence[Prompt]) -> list[list[Answer]]:
            with self._gate.passing():
                if rollout.stale == "error" and not rollout.staleness:
                    check_weights(self.engine.version, version, self._spec.policy, self._spec.name)
                start = time.time()
                answers = self.engine.generate(unfinished, settings, interrupted)
                spans.append(self._span(unfinished, answers, start))
                return answers

        answers = generate_fitting(prompts, lambda fitting: generate_until_ended(fitting, generate_part))
        return Generated(answers, spans)

    def load_weights(self, packed: "PackedWeights", iteration: int) -> Span:
        """Load a version of the weights, before waiting calls generate. Ignores a version older than the current one: while
        a worker is replaced, a publication may reach the new worker before its initial weights.
        """
        from workers.actors.weights import unpack

        self._started.wait()
        start = time.time()
        self._replace_weights(packed.version, lambda: unpack(packed))
        return self._sync_span(iteration, start)

    def await_start(self) -> None:
        """Wait until `start` has ended."""
        self._started.wait()

    def join_group(self, address: Address, rank: int, size: int) -> None:
        """Join the process group that the update worker forms at `address`. Raises TransferFailure."""
        from workers.actors.weights import WeightGroup

        if self._group is not None:
            self._group.close()
        self._group = WeightGroup.join(address, rank, size, self._loaded.model.device)

    def receive_weights(self, iteration: int) -> Span:
        """Receive a version through the process group, then load it as `load_weights` does. Answers are generated until all weights
        have arrived. Raises TransferFailure; the engine's weights are unchanged then.
        """
        from training_core.llm.models.lora import trained_weights
        from workers.actors.weights import layout_of

        start = time.time()
        if self._group is None:
            raise TransferFailure("this worker is not in a process group")
        version, weights = self._group.receive(layout_of(trained_weights(self._loaded.model)))
        self._replace_weights(version, lambda: weights)
        return self._sync_span(iteration, start)

    def save(self, folder: Path) -> None:
        """Write a frozen policy into a checkpoint, unless it is the base model. Raises CheckpointError."""
        from training_core.llm.learning.policy_checkpoint import policy_folder, save_frozen

        if self._restored:
            part = policy_folder(folder, self._spec.policy)
            save_frozen(part, self._loaded.model, self._loaded.tokenizer, self.engine.version)

    def _replace_weights(self, version: int, weights: "Callable[[], Mapping[str, Tensor]]") -> None:
        """Load weights between two generations, unless the current ones are newer."""
        with self._gate.closed(), self._loading:
            if version >= self.engine.version:
                self.engine.load_weights(weights(), version)

    def _sync_span(self, iteration: int, start: float) -> Span:
        return Span(self._spec.name, "sync", self._spec.policy, iteration, start, time.time())

    def _open_engine(self, loaded: "LoadedModel", *, sleeps: bool = False) -> None:
        from training_core.llm.generation.base import make_engine
        from training_core.llm.models.flops import shape_of

        self._loaded = loaded
        self._shape = shape_of(loaded.model.config)
        self.engine = make_engine(self._spec.section.engine, loaded.model, loaded.tokenizer, sleeps=sleeps)

    def _restore(self, checkpoint: Path) -> int:
        """Load a frozen policy's weights if the checkpoint has them. Returns the version. Raises CheckpointError."""
        from training_core.llm.learning.policy_checkpoint import check_tokenizer, load_frozen, policy_folder
        from training_core.llm.models.lora import trained_weights

        folder = policy_folder(checkpoint, self._spec.policy)
        if folder.is_dir():
            check_tokenizer(folder, self._loaded.tokenizer)
            version = load_frozen(folder, self._loaded.model)
            self.engine.load_weights(trained_weights(self._loaded.model), version)
            self._restored = True
        return self.engine.version

    def _span(self, prompts: Sequence[Prompt], answers: list[list[Answer]], start: float) -> Span:
        from training_core.llm.models.flops import forward_flops, generation_work

        name, policy = self._spec.name, self._spec.policy
        iteration = prompts[0].key.iteration if prompts else 0
        flops = forward_flops(self._shape, generation_work(prompts, answers)) if self._shape else None
        return Span(name, "rollout", policy, iteration, start, time.time(), flops, self._loaded.peak)


class UpdateWorker(Worker):
    """Owns the policy's weights and optimiser, alone or as one of `update_workers` processes that train together."""

    def __init__(self, spec: WorkerSpec, progress: Progress = silent) -> None:
        super().__init__(spec, progress)
        self.learner: Any = None
        self.version = 0
        self._store: Any = None
        """Where the members of the next process group for weights meet."""
        self._sending: WeightGroup | None = None
        """Process group through which this worker broadcasts weights."""
        self._planned: float | None = None
        """Estimated peak of this worker's memory in GiB, computed with the first update on a GPU."""

    def free_address(self) -> Address:
        """An address of this machine with a free port, for the communication between the policy's update workers."""
        host = _host()
        with socket.socket() as probe:
            probe.bind((host, 0))
            return host, int(probe.getsockname()[1])

    def start(self, resume_from: Path | None, address: Address | None = None) -> Ready:
        """Load model, optimiser and, if given, the checkpoint; several workers connect to each other at `address`.

        Raises ModelError, CheckpointError.
        """
        loaded = self._load()
        self._open_learner(loaded, address)
        return self._ready_with_sizes(loaded, self._resume(resume_from) if resume_from else 0)

    def update(self, groups: list[Group], iteration: int, version: int, annotated: set[str]) -> PolicyUpdate:
        """Update once on data of `version`. Raises StalePolicy."""
        name, policy, config = self._spec.name, self._spec.policy, self._spec.config
        check_weights(self.version, version, policy, name)
        start = time.time()
        groups = self.learner.fill_missing_logprobs(groups, version)
        checked = check_versions(groups, version, policy, config.stale_data, config.oldest_data)
        result = self.learner.update(checked.groups, iteration, version, annotated)
        positions = {(group.episode, group.turn): group for group in groups}
        annotations = {
            turn: _figures(annotation, positions[turn], checked.indices.get(turn))
            for turn, annotation in result.annotations.items()
        }
        span = Span(name, "update", policy, iteration, start, time.time(), result.flops, self._peak)
        metrics = result.metrics | self._memory()
        return PolicyUpdate(metrics, annotations, checked.answers, checked.dropped, checked.lag, [span])

    def _memory(self) -> dict[str, float]:
        """On a GPU the peak of memory since the last update, the estimate before the launch, if the model's size was known, and the
        tokens of a forward pass.
        """
        peak = peak_memory(self.learner.model.device)
        if peak is None:
            return {}
        if self._planned is None:
            estimated = estimate(self._spec.config, self._spec.home)
            workers = next(item.workers for item in estimated.policies if item.policy == self._spec.policy)
            self._planned = next((item.peak for item in workers if item.kind != "rollout"), 0) / GIB
        figures = {
            "memory_peak_gib": peak,
            "micro_batch_tokens": float(self._spec.section.learner.pass_tokens),
        }
        return figures | ({"memory_planned_gib": self._planned} if self._planned else {})

    def weights(self, version: int) -> "PackedWeights":
        """The current weights, which become `version`. With several processes only the first one returns arrays."""
        from workers.actors.weights import pack

        self.version = version
        weights = self.learner.weights()
        return pack(weights if self._processes.rank == 0 else {}, version)

    def open_group(self) -> Address:
        """The address at which this worker and the policy's rollout workers form a process group. Ends an earlier group."""
        from workers.actors.weights import open_store

        if self._sending is not None:
            self._sending.close()
            self._sending = None
        host = _host()
        self._store = open_store(host)
        return host, int(self._store.port)

    def form_group(self, size: int) -> None:
        """Wait at the address until the rollout workers have joined. Raises TransferFailure."""
        from workers.actors.weights import WeightGroup

        self._sending = WeightGroup(self._store, 0, size, self.learner.model.device)

    def send_weights(self, version: int) -> "PackedWeights":
        """Broadcast the current weights, which become `version`. Returns them too, for rollout workers that could not receive
        them or that replace others. With several processes the first one broadcasts and returns.
        """
        from workers.actors.weights import pack

        self.version = version
        weights = self.learner.weights()
        if self._sending is not None:
            try:
                self._sending.send(weights, version)
            except TransferFailure as error:
                # The rollout workers do not receive the weights either, and report it.
                log.warning("%s", error)
        return pack(weights if self._processes.rank == 0 else {}, version)

    def save(self, folder: Path) -> None:
        """Write this policy into a checkpoint; with several processes the first one writes. Raises CheckpointError."""
        from training_core.llm.learning.policy_checkpoint import policy_folder, save_policy

        if self._processes.rank > 0:
            self.learner.state_dict()  # all processes take part in gathering a sharded state
            return
        save_policy(policy_folder(folder, self._spec.policy), self.learner, self._tokenizer, self.version)

    def _open_learner(self, loaded: "LoadedModel", address: Address | None = None) -> None:
        from training_core.llm.learning.learner import make_learner
        from training_core.llm.learning.optimiser import SINGLE_PROCESS, join

        spec, config = self._spec, self._spec.config
        self._tokenizer, self._peak = loaded.tokenizer, loaded.peak
        self._processes = SINGLE_PROCESS
        if address:
            size = spec.section.devices.update_workers
            self._processes = join(spec.rank, size, *address, gpu=loaded.on_gpu)
        self.learner = make_learner(
            spec.section,
            config.algorithm,
            loaded.model,
            config.run.iterations,
            config.oldest_data,
            self._processes,
            keyed_seed(config.run.seed, crc32(spec.policy.encode())),
        )

    def _resume(self, checkpoint: Path) -> int:
        """Load the policy's part of a checkpoint. Returns the version. Raises CheckpointError."""
        from training_core.llm.learning.policy_checkpoint import check_tokenizer, load_policy, policy_folder

        folder = policy_folder(checkpoint, self._spec.policy)
        check_tokenizer(folder, self._tokenizer)
        self.version = load_policy(folder, self.learner)
        return self.version


def _host() -> str:
    """The address of this machine in the cluster."""
    import ray  # here: local runs have such workers too, and no Ray

    return str(ray.util.get_node_ip_address())  # type: ignore[no-untyped-call]


def _figures(annotation: "GroupAnnotation", group: Group, indices: list[int] | None) -> TokenFigures:
    """The learner's values in the order of the group's answers; `indices`: those that the learner got, if not all."""
    count = len(group.answers)
    places = list(range(count)) if indices is None else indices
    return TokenFigures(
        spread(annotation.ratios, places, count),
        spread(annotation.entropies, places, count),
        spread(annotation.training_logprobs, places, count),
        spread(annotation.masks, places, count),
    )


def spread(values: Sequence[list[Item]], indices: Sequence[int], count: int) -> list[list[Item]]:
    """A list of `count` lists: `values` at `indices`, empty ones elsewhere."""
    at = dict(zip(indices, values, strict=True))
    return [at.get(index, []) for index in range(count)]


def print_progress(done: float, text: str) -> None:
    """Print progress to standard output, which Ray forwards to the job's log."""
    sys.stdout.write(f"base model, {done:.0%}: {text}\n")
    sys.stdout.flush()


class PolicyWorker(RolloutWorker, UpdateWorker):
    """A PolicyProxy by itself: local runs call it directly, runs on Ray through an actor.

    The engine and the learner share one instance of the model, or the engine has its own copy of the weights: then it sleeps during
    updates, so that they can use its memory.
    """

    def __init__(self, spec: WorkerSpec, progress: Progress = print_progress) -> None:
        super().__init__(spec, progress)
        self._engine_has_copy = spec.section.engine.weights == "copied"

    def start(self, resume_from: Path | None, address: Address | None = None) -> Ready:
        """Load the model. A policy without a trained role gets no learner, but may have weights in the checkpoint.

        Raises ModelError, CheckpointError.
        """
        loaded = self._load()
        trained = self._spec.policy in self._spec.config.trained_policies
        self._open_engine(loaded, sleeps=trained and self._engine_has_copy)
        version = 0
        if trained:
            self._open_learner(loaded)
            version = self._resume(resume_from) if resume_from else 0
            if version > 0:
                self._share_weights(version)
        elif resume_from:
            version = self._restore(resume_from)
        return self._ready_with_sizes(loaded, version)

    def update(self, groups: list[Group], iteration: int, version: int, annotated: set[str]) -> PolicyUpdate:
        """Update once on data of `version`. Raises StalePolicy."""
        self.release_store()
        with self._engine_asleep():
            return super().update(groups, iteration, version, annotated)

    def release_store(self) -> None:
        """With learner.offload, release the engine's keys and values until it generates again. Call between generations."""
        from training_core.llm.generation.torch_engine import TorchEngine

        if self.learner is not None and self.learner.offloads and isinstance(self.engine, TorchEngine):
            self.engine.release_stores()

    def publish(self, version: int, iteration: int) -> list[Span]:
        """Set the version of engine and learner, and copy the weights if the engine has its own."""
        start = time.time()
        self.version = version
        self._share_weights(version)
        return [self._sync_span(iteration, start)] if self._engine_has_copy else []

    def save(self, folder: Path) -> None:
        """Write this policy into a checkpoint. Raises CheckpointError."""
        if self.learner is not None:
            UpdateWorker.save(self, folder)
        else:
            RolloutWorker.save(self, folder)

    def _share_weights(self, version: int) -> None:
        """Have the engine generate with the learner's weights as `version`."""
        if self._engine_has_copy:
            self._replace_weights(version, self.learner.weights)
        else:
            self.engine.version = version

    @contextmanager
    def _engine_asleep(self) -> Iterator[None]:
        """Context in which an engine with its own weights sleeps, and requests wait."""
        if not self._engine_has_copy:
            yield
            return
        engine = cast("SleepingEngine", self.engine)
        with self._gate.closed():
            engine.sleep()
            try:
                yield
            finally:
                engine.wake_up()
