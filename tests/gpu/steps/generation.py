"""Speed of generation with the torch engine."""

from typing import Any

import torch

from tests.gpu.models import SIZES, TINY, make_model, make_tokenizer
from tests.gpu.setting import Figures, Setting
from tests.gpu.tasks import make_prompts
from tests.gpu.timing import bandwidth_of, device_name, peak_memory, reset_peak, timed
from training_core.llm.generation.base import SamplingSettings
from training_core.llm.generation.torch_engine import TorchEngine
from training_core.llm.models.flops import forward_flops, generation_work, peak_of, shape_of
from training_core.llm.models.fused_kernels import use_fused_kernels

BATCHES = (64, 256)
"""Answers that are generated at the same time."""


def measure_generation(setting: Setting, size: str) -> Figures:
    """Tokens per second, and shares of the card's memory bandwidth and arithmetic, of both families in bf16."""
    figures: Figures = {"size": size, "card": device_name(setting.device), "rows": []}
    sizes = setting.pick(SIZES[size], TINY)
    for family in ("qwen2", "llama"):
        model = make_model(family, sizes, setting.device, torch.bfloat16)
        use_fused_kernels(model)
        tokenizer = make_tokenizer(sizes.vocabulary)
        for batch in setting.pick(BATCHES, (8,)):
            try:
                row = _measure(setting, model, tokenizer, batch)
            except torch.OutOfMemoryError:
                row = {"out_of_memory": True}
            figures["rows"].append({"family": family, "answers_at_once": batch} | row)
            setting.note(figures)
        del model
        reset_peak(setting.device)
    speeds = [row["tokens_per_second"] for row in figures["rows"] if "tokens_per_second" in row]
    return figures | ({"tokens_per_second": max(speeds)} if speeds else {})


def _measure(setting: Setting, model: Any, tokenizer: Any, batch: int) -> Figures:
    """One batch: groups of 8 answers to prompts of 256 tokens."""
    candidates, length, tokens = setting.pick((8, 256, 256), (4, 8, 6))
    prompts = make_prompts(batch // candidates, candidates, length, model.config.vocab_size)
    settings = SamplingSettings(max_tokens=tokens)
    engine = TorchEngine(model, tokenizer, max_batch=batch)
    reset_peak(setting.device)
    engine.generate(prompts, settings)  # captures the graphs
    answers: list[Any] = []
    seconds = timed(lambda: answers.extend(engine.generate(prompts, settings)), setting.device)
    generated = sum(len(answer.token_ids) for group in answers for answer in group)
    longest = max(len(answer.token_ids) for group in answers for answer in group)
    figures: Figures = {
        "prompt_tokens": length,
        "generated_tokens": generated,
        "seconds": seconds,
        "tokens_per_second": generated / seconds,
        "peak_bytes": peak_memory(setting.device),
    }
    bandwidth = bandwidth_of(setting.device)
    if bandwidth:
        traffic = longest * _weight_bytes(model) + _cache_bytes(model, length, answers)
        figures["share_of_bandwidth"] = traffic / seconds / bandwidth
    shape, peak = shape_of(model.config), peak_of(device_name(setting.device), "bf16")
    if shape and peak:
        figures["mfu"] = forward_flops(shape, generation_work(prompts, answers)) / seconds / peak
    return figures


def _weight_bytes(model: Any) -> int:
    """Bytes of weights that a decoding step reads at least: all, except an embedding table without a tied output layer."""
    total = sum(weight.numel() * weight.element_size() for weight in model.parameters())
    table = model.get_input_embeddings().weight
    tied = model.get_output_embeddings().weight is table
    return total if tied else total - table.numel() * table.element_size()


def _cache_bytes(model: Any, prompt: int, answers: Any) -> int:
    """Bytes of keys and values that decoding reads at least: every prompt once per step, and each answer's own tokens."""
    config = model.config
    head = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    per_token = 2 * config.num_hidden_layers * config.num_key_value_heads * head * model.dtype.itemsize
    places = 0
    for group in answers:
        lengths = [len(answer.token_ids) for answer in group]
        places += max(lengths) * prompt + sum(length * (length - 1) // 2 for length in lengths)
    return per_token * places
