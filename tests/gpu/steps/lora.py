"""LoRA against dense arithmetic, and roles that share a base."""

import torch
from torch import Tensor

from tests.gpu.learners import gradients_of, make_learner, relative_error
from tests.gpu.models import TINY, Size, make_model, make_tokenizer
from tests.gpu.naive import naive_loss
from tests.gpu.setting import Figures, Setting
from tests.gpu.tasks import make_groups, make_prompts
from training_core.llm.generation.base import SamplingSettings
from training_core.llm.generation.torch_engine import TorchEngine
from training_core.llm.learning.learner import Learner
from training_core.llm.models.adapter_config import Lora
from training_core.llm.models.lora import merged, with_shared_tensors
from training_core.types import Group

SIZE = Size(1024, 8, 16, 4, 2816, 8_192)
ADAPTER = Lora(rank=8, alpha=16)
STEPS = 3


def check_lora(setting: Setting) -> Figures:
    """Gradients of A and B against those of W' = W + s B A by the chain rule; the base stays; a merged model is equal."""
    size = setting.pick(SIZE, TINY)
    figures: Figures = {"relative_gradient_error": 0.0, "largest_merge_error": 0.0, "changed_base_weights": 0}
    for family in ("qwen2", "llama"):
        base = make_model(family, size, setting.device, spread=2.0)
        before = {name: weight.clone() for name, weight in base.named_parameters()}
        roles = [with_shared_tensors(base) for _ in range(2)]
        learners = [
            make_learner(model, lora=ADAPTER, seed=seed, max_grad_norm=0.0, learning_rate=1e-2)
            for seed, model in enumerate(roles)
        ]
        prompts = make_prompts(setting.pick(8, 3), setting.pick(8, 4), setting.pick(64, 12), size.vocabulary)
        settings = SamplingSettings(max_tokens=setting.pick(64, 8))
        engines = [TorchEngine(model, make_tokenizer(size.vocabulary)) for model in roles]
        for number in range(1, STEPS + 1):
            for learner, engine in zip(learners, engines, strict=True):
                groups = make_groups(prompts, engine.generate(prompts, settings))
                error = relative_error(gradients_of(learner, groups), _dense_gradient(learner, base, groups))
                figures["relative_gradient_error"] = max(figures["relative_gradient_error"], error)
                learner.update(groups, number, 0, set())
                engine.conversations.clear()
        figures["changed_base_weights"] += sum(
            not torch.equal(weight, before[name]) for name, weight in base.named_parameters()
        )
        figures["largest_merge_error"] = max(
            figures["largest_merge_error"], _merge_error(roles[0], prompts[0].token_ids)
        )
        figures["adapters_differ"] = not all(
            torch.equal(one, other)
            for one, other in zip(learners[0].weights().values(), learners[1].weights().values(), strict=True)
        )
        setting.note(figures)
    return figures


def _dense_gradient(learner: Learner, base: torch.nn.Module, groups: list[Group]) -> Tensor:
    """Gradients of all A and B from those of dense weights: dA = s B^T dW, dB = s dW A^T."""
    dense = merged(learner.model).requires_grad_(True)
    loss = naive_loss(dense, groups)
    loss.backward()
    gradients = {name: weight.grad for name, weight in dense.named_parameters()}
    scale = ADAPTER.alpha / ADAPTER.rank
    weights = learner.weights()
    parts = []
    for name in learner.optimiser.names:
        layer, _, kind = name.partition(".lora_")
        change = gradients[f"{layer}.weight"]
        first, second = (weights[f"{layer}.lora_{letter}.default.weight"] for letter in "AB")
        part = second.T @ change if kind.startswith("A") else change @ first.T
        parts.append((scale * part).flatten())
    return torch.cat(parts)


@torch.no_grad()
def _merge_error(model: torch.nn.Module, tokens: list[int]) -> float:
    text = torch.tensor([tokens], device=next(model.parameters()).device)
    logits, other = (part(input_ids=text).logits for part in (model, merged(model)))
    return float((logits - other).abs().max() / logits.abs().max())
