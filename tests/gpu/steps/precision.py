"""Bounds of bf16: generation and updates against fp32 with the same weights."""

from copy import deepcopy

import torch

from tests.gpu.learners import gradients_of, make_learner, similarity
from tests.gpu.models import TINY, Size, make_model, make_tokenizer
from tests.gpu.naive import logprob_errors
from tests.gpu.setting import Figures, Setting
from tests.gpu.tasks import make_groups, make_prompts
from training_core.llm.generation.base import SamplingSettings
from training_core.llm.generation.torch_engine import TorchEngine

SIZE = Size(1024, 16, 16, 4, 2816, 32_000)


def check_bf16(setting: Setting) -> Figures:
    """Distances of bf16 from fp32: logprobs of the engine (mean, largest), the learner's mismatch, and the gradient's angle."""
    size = setting.pick(SIZE, TINY)
    figures: Figures = {}
    for family in ("qwen2", "llama"):
        model = make_model(family, size, setting.device, torch.bfloat16)
        whole = deepcopy(model).float()  # the same weights, more precise arithmetic
        prompts = make_prompts(
            setting.pick(16, 4), setting.pick(8, 4), setting.pick(128, 12), size.vocabulary
        )
        engine = TorchEngine(model, make_tokenizer(size.vocabulary))
        answers = engine.generate(prompts, SamplingSettings(max_tokens=setting.pick(128, 8)))
        groups = make_groups(prompts, answers)
        metrics = make_learner(deepcopy(model), precision="bf16").update(groups, 1, 0, set()).metrics
        gradients = [
            gradients_of(make_learner(own, precision=precision, max_grad_norm=0.0), groups)
            for own, precision in ((model, "bf16"), (whole, "fp32"))
        ]
        error = logprob_errors(whole, prompts, answers)
        row = {
            "mean_logprob_error": float(error.mean()),
            "largest_logprob_error": float(error.max()),
            "mismatch_mean": metrics["mismatch_mean"],
            "mismatch_kl": metrics["mismatch_kl"],
            "gradient_similarity": similarity(*gradients),
        }
        figures[family] = row
        setting.note(figures)
    for name in ("mean_logprob_error", "largest_logprob_error", "mismatch_mean", "mismatch_kl"):
        figures[name] = max(figures[family][name] for family in ("qwen2", "llama"))
    figures["gradient_similarity"] = min(
        figures[family]["gradient_similarity"] for family in ("qwen2", "llama")
    )
    return figures
