"""Memory of several policies on one card."""

import gc
from collections.abc import Callable
from typing import Any

import torch

from tests.gpu.learners import make_learner
from tests.gpu.models import SIZES, TINY, make_model, make_tokenizer
from tests.gpu.setting import Figures, Setting
from tests.gpu.tasks import make_groups, make_prompts
from tests.gpu.timing import allocated, peak_memory, reset_peak
from training_core.llm.generation.base import SamplingSettings
from training_core.llm.generation.torch_engine import TorchEngine
from training_core.llm.models.adapter_config import Lora
from training_core.llm.models.lora import with_shared_tensors

ROLES = 4
ADAPTER = Lora(rank=8, alpha=16)


def measure_shared_base(setting: Setting) -> Figures:
    """Memory after a generation and an update of one LoRA role, of four that share their base, and of two full policies."""
    figures: Figures = {}
    for name, act in (
        ("one_role", lambda: _roles(setting, 1)),
        ("four_roles", lambda: _roles(setting, ROLES)),
        ("two_full_policies", lambda: _full_policies(setting, 2)),
    ):
        figures |= _memory(setting, name, act)
        setting.note(figures)
    figures["base_tensors_of_four_roles"] = _base_tensors(setting)
    if setting.device.type == "cuda":
        figures["four_roles_to_one"] = figures["four_roles_bytes"] / figures["one_role_bytes"]
        figures["peak_of_four_roles_to_one"] = (
            figures["four_roles_peak_bytes"] / figures["one_role_peak_bytes"]
        )
    return figures


def _memory(setting: Setting, name: str, act: Callable[[], Any]) -> Figures:
    gc.collect()
    reset_peak(setting.device)
    alive = act()
    figures = {f"{name}_bytes": allocated(setting.device), f"{name}_peak_bytes": peak_memory(setting.device)}
    del alive
    gc.collect()
    return figures


def _roles(setting: Setting, count: int) -> list[Any]:
    """LoRA roles, each with its engine and learner, after a generation and an update."""
    base = make_model("qwen2", setting.pick(SIZES["1.7B"], TINY), setting.device, torch.bfloat16)
    models = [base, *(with_shared_tensors(base) for _ in range(count - 1))]
    return [_played(setting, model, ADAPTER, seed) for seed, model in enumerate(models)]


def _full_policies(setting: Setting, count: int) -> list[Any]:
    size = setting.pick(SIZES["0.5B"], TINY)
    return [
        _played(setting, make_model("qwen2", size, setting.device, torch.bfloat16, seed=seed), None, seed)
        for seed in range(count)
    ]


def _played(setting: Setting, model: Any, lora: Lora | None, seed: int) -> Any:
    learner = make_learner(model, precision="bf16", lora=lora, seed=seed)
    engine = TorchEngine(model, make_tokenizer(model.config.vocab_size), cache_bytes=0, static=False)
    prompts = make_prompts(setting.pick(8, 2), 4, setting.pick(128, 8), model.config.vocab_size)
    groups = make_groups(prompts, engine.generate(prompts, SamplingSettings(max_tokens=setting.pick(64, 4))))
    learner.update(groups, 1, 0, set())
    return learner, engine


def _base_tensors(setting: Setting) -> int:
    """Number of different base tensors that four roles have, in multiples of one role's."""
    base = make_model("qwen2", TINY, setting.device)
    count = len({weight.data_ptr() for weight in base.parameters()})
    models = [base, *(with_shared_tensors(base) for _ in range(ROLES - 1))]
    for seed, model in enumerate(models):
        make_learner(model, lora=ADAPTER, seed=seed)
    places = {
        weight.data_ptr()
        for model in models
        for name, weight in model.named_parameters()
        if ".lora_" not in name
    }
    return len(places) // count
