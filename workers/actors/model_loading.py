"""Loads a policy's model with torch."""

import time
from dataclasses import dataclass
from typing import Any
from weakref import WeakValueDictionary

import torch
from transformers import PreTrainedModel, PreTrainedTokenizerBase
from transformers.utils.logging import disable_progress_bar

from training_core.devices import torch_device
from training_core.llm.base_models.folder_creation import Progress, silent
from training_core.llm.base_models.registry import resolve_model
from training_core.llm.base_models.tiny import read_facts
from training_core.llm.models.flops import peak_of
from training_core.llm.models.loading import load_model, load_tokenizer
from training_core.llm.models.lora import add_adapter, with_shared_tensors
from training_core.seeding import keyed_seed
from workers.actors.machine import prepare_process
from workers.protocol import Span, WorkerSpec


@dataclass
class LoadedModel:
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
    """The base model whose tensors `model` uses in addition to its adapter; other policies of this process may share it."""


_SHARED: WeakValueDictionary[tuple[str, str, str], PreTrainedModel] = WeakValueDictionary()
"""Base models under adapters in this process, by source, precision and device, for as long as a policy uses them."""


def load(spec: WorkerSpec, born: float, progress: Progress = silent) -> LoadedModel:
    """Load (or first make) the base model; the span is from `born`, before imports. Raises ModelError, ConfigError."""
    prepare_process(spec.config.resources.threads)
    device = torch_device(spec.gpus, spec.gpu_field)
    source = resolve_model(spec.section.model, spec.config.environment, spec.home, progress)
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
    return LoadedModel(
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
    key = (source, precision, device)
    shared = _SHARED.get(key)
    if shared is None:
        shared = _SHARED[key] = load_model(source, precision, device).requires_grad_(False)
    model = with_shared_tensors(shared)
    add_adapter(model, adapter, keyed_seed(spec.config.run.seed, *spec.policy.encode()))
    return model, shared
