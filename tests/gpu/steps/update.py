"""Speed of updates: model FLOPs utilisation (MFU)."""

from typing import Any

import torch

from tests.gpu.learners import make_learner
from tests.gpu.models import SIZES, TINY, Size, make_model
from tests.gpu.setting import Figures, Setting
from tests.gpu.tasks import make_groups, make_prompts, random_answers
from tests.gpu.timing import device_name, peak_memory, reset_peak, timed
from training_core.llm.models.adapter_config import Lora
from training_core.llm.models.flops import peak_of
from training_core.llm.models.fused_kernels import use_fused_kernels

FULL_BYTES = 20
"""Memory per parameter of a full update in bf16: weight, gradient, fp32 copy, its gradient and two moments."""
ADAPTER = Lora(rank=32, alpha=64)
REPEATS = 3


def measure_update(setting: Setting, size: str) -> Figures:
    """MFU and tokens per second of updates in bf16 of both families: of all weights if they fit on the card, else of LoRA."""
    figures: Figures = {"size": size, "card": device_name(setting.device), "rows": []}
    for family in ("qwen2", "llama"):
        row = _measure(setting, family, setting.pick(SIZES[size], TINY))
        figures["rows"].append({"family": family} | row)
        setting.note(figures)
        reset_peak(setting.device)
    shares = [row["mfu"] for row in figures["rows"] if "mfu" in row]
    return figures | ({"mfu": max(shares)} if shares else {})


def _measure(setting: Setting, family: str, size: Size) -> Figures:
    """Groups of 8 answers of 512 tokens to prompts of 512 tokens, packed."""
    model = make_model(family, size, setting.device, torch.bfloat16)
    fused = use_fused_kernels(model)
    parameters = sum(weight.numel() for weight in model.parameters())
    lora = None if _fits(setting, parameters) else ADAPTER
    learner = make_learner(
        model,
        precision="bf16",
        lora=lora,
        micro_batch_tokens=setting.pick(8_192, 256),
        activation_checkpointing=parameters > 3e9,
    )
    prompts = make_prompts(setting.pick(16, 3), setting.pick(8, 4), setting.pick(512, 12), size.vocabulary)
    groups = make_groups(prompts, random_answers(prompts, setting.pick(512, 6), size.vocabulary))
    reset_peak(setting.device)
    results: list[Any] = [learner.update(groups, 1, 0, set())]  # compiles the attention's kernels
    seconds = [
        timed(lambda: results.append(learner.update(groups, 1, 0, set())), setting.device)
        for _ in range(setting.pick(REPEATS, 1))
    ]
    best = min(seconds)
    result = results[-1]
    figures: Figures = {
        "parameters": parameters,
        "trained": "all weights" if lora is None else f"LoRA of rank {lora.rank}",
        "attention": "flex" if learner.forward.blocks else "mask",
        "fused_kernels": fused,
        "recomputes_activations": learner.settings.activation_checkpointing,
        "seconds": best,
        "response_tokens_per_second": result.metrics["tokens"] / best,
        "computed_tokens_per_second": result.metrics["computed_tokens"] / best,
        "flops": result.flops,
        "peak_bytes": peak_memory(setting.device),
    }
    peak = peak_of(device_name(setting.device), "bf16")
    return figures | ({"mfu": result.flops / best / peak} if peak and result.flops else {})


def _fits(setting: Setting, parameters: int) -> bool:
    if setting.device.type != "cuda":
        return True
    return parameters * FULL_BYTES < 0.85 * torch.cuda.get_device_properties(0).total_memory
