"""The two sides of a policy's work, with torch: generating and updating. One process may hold either or both."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from weakref import WeakValueDictionary
from zlib import crc32

import torch
from transformers import PreTrainedModel, PreTrainedTokenizerBase
from transformers.utils.logging import disable_progress_bar

from training_core.llm.base_models.progress import Progress, silent
from training_core.llm.base_models.registry import resolve_model
from training_core.llm.base_models.tiny import read_facts
from training_core.llm.generation.base import SamplingSettings
from training_core.llm.generation.continuation import generate_until_ended
from training_core.llm.generation.registry import make_engine
from training_core.llm.learning.policy_checkpoint import (
    check_tokenizer,
    load_frozen,
    load_policy,
    policy_folder,
    save_frozen,
    save_policy,
)
from training_core.llm.learning.processes import SINGLE_PROCESS, join
from training_core.llm.learning.registry import make_learner
from training_core.llm.models.adapters import add_adapter, trained_weights, with_shared_tensors
from training_core.llm.models.flops import generation_work, peak_of, shape_of
from training_core.llm.models.loading import load_model, load_tokenizer
from training_core.seeding import keyed_seed
from training_core.types import Answer, Group, Prompt
from workers.actors.gate import Gate
from workers.actors.machine import prepare_process
from workers.protocol.records import Span
from workers.protocol.spec import Generated, PolicyUpdate, TokenFigures, WorkerSpec
from workers.transfer.staleness import check_versions, check_weights
from workers.transfer.weights import PackedWeights, pack, unpack


@dataclass
class Loaded:
    """A policy's model as it was before training."""

    model: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase
    model_name: str
    base: dict[str, Any]
    span: Span
    peak: float | None
    """FLOP/s of the device at its peak, in the model's precision; None where it is not known."""
    on_gpu: bool
    shared: PreTrainedModel | None
    """The base model whose tensors `model` has beside its adapter, and other policies of this process may have too."""


_SHARED: WeakValueDictionary[tuple[str, str, str], PreTrainedModel] = WeakValueDictionary()
"""Base models under adapters in this process, by source, precision and device, for as long as a policy uses them."""


def load(spec: WorkerSpec, born: float, progress: Progress = silent) -> Loaded:
    """Load (or first make) the base model; the span is from `born`, before imports. Raises ModelError."""
    prepare_process(spec.config.resources.threads)
    source = resolve_model(spec.section.model, spec.config.environment, spec.home, progress)
    device = "cuda" if spec.gpus > 0 and torch.cuda.is_available() else "cpu"
    if spec.section.warm_start.steps:
        from training_core.llm.base_models.warm_start import (
            warm_started_model,  # imports environments: seldom needed
        )

        source = warm_started_model(
            source, spec.section.warm_start, spec.config.environment, spec.home, device, progress
        )
    disable_progress_bar()  # its bars would break ours, and a job's log
    model, shared = _model(spec, str(source), device)
    tokenizer = load_tokenizer(source)
    span = Span(spec.name, "load", spec.policy, 0, born, time.time())
    peak = peak_of(torch.cuda.get_device_name(), spec.section.learner.precision) if device == "cuda" else None
    return Loaded(
        model,
        tokenizer,
        str(source),
        {"name": spec.section.model, "source": str(source)} | read_facts(source),
        span,
        peak,
        device == "cuda",
        shared,
    )


def _model(spec: WorkerSpec, source: str, device: str) -> tuple[PreTrainedModel, PreTrainedModel | None]:
    """The policy's model, and the base model that it shares where it has an adapter. Raises ModelError."""
    adapter, precision = spec.section.adapter, spec.section.learner.precision
    if adapter.type == "none":
        return load_model(source, precision, device), None
    place = (source, precision, device)
    shared = _SHARED.get(place)
    if shared is None:
        shared = _SHARED[place] = load_model(source, precision, device).requires_grad_(False)
    model = with_shared_tensors(shared)
    add_adapter(model, adapter, keyed_seed(spec.config.run.seed, *spec.policy.encode()))
    return model, shared


class RolloutSide:
    """Generates, with the version of the weights that is asked for."""

    def __init__(self, spec: WorkerSpec, loaded: Loaded) -> None:
        self._spec = spec
        self._loaded = loaded
        self._shape = shape_of(loaded.model.config)
        self._recalled = False
        """Whether the weights are a checkpoint's."""
        self._gate = Gate()
        self.engine = make_engine(spec.section, loaded.model, loaded.tokenizer)

    def generate(self, prompts: list[Prompt], settings: SamplingSettings, version: int) -> Generated:
        """Answers per prompt, one call after another. New weights interrupt them, if the config says so: they go on with those.

        Old weights may speak where the update leaves such answers out (rollout.stale = "drop") or learns from them
        (rollout.staleness). Raises StalePolicy, EngineFailure.
        """
        rollout = self._spec.config.rollout
        interrupted = (lambda: self._gate.closing) if rollout.partial else None
        spans: list[Span] = []

        def say(some: Sequence[Prompt]) -> list[list[Answer]]:
            with self._gate.passing():
                if rollout.stale == "error" and not rollout.staleness:
                    check_weights(self.engine.version, version, self._spec.policy, self._spec.name)
                start = time.time()
                said = self.engine.generate(some, settings, interrupted)
                spans.append(self._span(some, said, start))
                return said

        return Generated(generate_until_ended(prompts, say), spans)

    def pause_generation(self) -> None:
        """Stop generating, in mid-sequence where the config says so, until `continue_generation`; returns when it has."""
        self._gate.close()

    def continue_generation(self) -> None:
        """Go on where `pause_generation` stopped."""
        self._gate.open()

    def _span(self, prompts: Sequence[Prompt], answers: list[list[Answer]], start: float) -> Span:
        iteration = prompts[0].key.iteration if prompts else 0
        flops = self._shape.forward(generation_work(prompts, answers)) if self._shape else None
        return Span(
            self._spec.name,
            "rollout",
            self._spec.policy,
            iteration,
            start,
            time.time(),
            flops,
            self._loaded.peak,
        )

    def recall(self, checkpoint: Path) -> int:
        """A frozen policy's weights from a checkpoint, where they are in it; returns the version.

        Raises CheckpointError.
        """
        folder = policy_folder(checkpoint, self._spec.policy)
        if folder.is_dir():
            check_tokenizer(folder, self._loaded.tokenizer)
            version = load_frozen(folder, self._loaded.model)
            self.engine.load_weights(trained_weights(self._loaded.model), version)
            self._recalled = True
        return self.engine.version

    def save(self, folder: Path) -> None:
        """Write a frozen policy into a checkpoint, unless it is the base model. Raises CheckpointError."""
        if self._recalled:
            part = policy_folder(folder, self._spec.policy)
            save_frozen(part, self._loaded.model, self._loaded.tokenizer, self.engine.version)

    def load_weights(self, packed: PackedWeights, iteration: int) -> Span:
        """Take over a version of the weights, before those who wait to generate. Older ones than it has are left: what is
        published while a worker is replaced may reach the new one before what it was to begin with.
        """
        start = time.time()
        with self._gate.closed():
            if packed.version >= self.engine.version:
                self.engine.load_weights(unpack(packed), packed.version)
        return Span(self._spec.name, "sync", self._spec.policy, iteration, start, time.time())


class UpdateSide:
    """Learns from groups of its own version; where there is a meeting place, together with others that come there."""

    def __init__(self, spec: WorkerSpec, loaded: Loaded, meeting: tuple[str, int] | None = None) -> None:
        config = spec.config
        self._processes = SINGLE_PROCESS
        if meeting:
            size = spec.section.devices.update_workers
            self._processes = join(spec.rank, size, *meeting, gpu=loaded.on_gpu)
        self._spec = spec
        self._tokenizer = loaded.tokenizer
        self._peak = loaded.peak
        self._learner = make_learner(
            spec.section,
            config.algorithm,
            loaded.model,
            config.run.iterations,
            config.oldest_data,
            self._processes,
            keyed_seed(config.run.seed, crc32(spec.policy.encode())),
        )
        self.version = 0

    def update(self, groups: list[Group], iteration: int, version: int, annotated: set[str]) -> PolicyUpdate:
        """One update on data of `version`. Raises StalePolicy."""
        check_weights(self.version, version, self._spec.policy, self._spec.name)
        start = time.time()
        config = self._spec.config
        groups = self._learner.fill_missing_logprobs(groups, version)
        checked = check_versions(groups, version, self._spec.policy, config.stale_data, config.oldest_data)
        result = self._learner.update(checked.groups, iteration, version, annotated)
        figures = {
            place: TokenFigures(group.ratios, group.entropies, group.training_logprobs)
            for place, group in result.annotations.items()
        }
        end = time.time()
        span = Span(
            self._spec.name, "update", self._spec.policy, iteration, start, end, result.flops, self._peak
        )
        return PolicyUpdate(result.metrics, figures, checked.answers, checked.dropped, checked.lag, [span])

    def publish(self, version: int) -> PackedWeights:
        """The weights as they are now, from here on called `version`; of several processes the first hands them out."""
        self.version = version
        weights = self._learner.weights()
        return pack(weights if self._processes.rank == 0 else {}, version)

    def save(self, folder: Path) -> None:
        """Write this policy into a checkpoint; of several processes the first does. Raises CheckpointError."""
        if self._processes.rank > 0:
            self._learner.state_dict()  # what is spread is gathered by all
            return
        save_policy(policy_folder(folder, self._spec.policy), self._learner, self._tokenizer, self.version)

    def resume(self, checkpoint: Path) -> int:
        """Go on from a checkpoint; returns the version. Raises CheckpointError."""
        folder = policy_folder(checkpoint, self._spec.policy)
        check_tokenizer(folder, self._tokenizer)
        self.version = load_policy(folder, self._learner)
        return self.version
