"""Fused kernels of liger-kernel against transformers' modules, with the same weights."""

from copy import deepcopy

import torch

from tests.gpu.learners import relative_error, similarity
from tests.gpu.models import TINY, Size, make_model
from tests.gpu.naive import naive_logprobs, naive_loss
from tests.gpu.setting import Figures, Setting
from tests.gpu.tasks import make_groups, make_prompts, random_answers
from training_core.llm.models.fused_kernels import use_fused_kernels
from training_core.types import Group

SIZE = Size(1024, 8, 16, 4, 2816, 8_192)


def check_fused_kernels(setting: Setting) -> Figures:
    """Logprobs and gradients of a naive loss before and after fused kernels replace a model's methods."""
    size = setting.pick(SIZE, TINY)
    prompts = make_prompts(setting.pick(4, 2), 4, setting.pick(200, 12), size.vocabulary)
    groups = make_groups(prompts, random_answers(prompts, setting.pick(120, 6), size.vocabulary))
    figures: Figures = {"models_without": 0, "largest_logprob_error": 0.0, "relative_gradient_error": 0.0}
    similarities = []
    for family in ("qwen2", "llama"):
        model = make_model(family, size, setting.device, spread=2.0)
        low = deepcopy(model).bfloat16()
        expected = _results(model, groups)
        before = _results(
            low, groups
        )  # the rotation is the family's: this comes before the first replacement
        figures["models_without"] += 2 - use_fused_kernels(model) - use_fused_kernels(low)
        actual = _results(model, groups)
        largest = float((actual[0] - expected[0]).abs().max())
        figures["largest_logprob_error"] = max(figures["largest_logprob_error"], largest)
        error = relative_error(actual[1], expected[1])
        figures["relative_gradient_error"] = max(figures["relative_gradient_error"], error)
        similarities.append(similarity(_results(low, groups)[1], before[1]))
        setting.note(figures)
    return figures | {"gradient_similarity": min(similarities)}


def _results(model: torch.nn.Module, groups: list[Group]) -> tuple[torch.Tensor, torch.Tensor]:
    """Logprobs (tokens,) and the gradient (weights,) of the naive loss."""
    with torch.no_grad():
        logprobs = torch.cat(
            [
                naive_logprobs(model, group.prompt_ids, answer.token_ids)
                for group in groups
                for answer in group.answers
            ]
        )
    naive_loss(model, groups).backward()
    gradient = torch.cat([weight.grad.flatten().float() for weight in model.parameters()])
    model.zero_grad(set_to_none=True)
    return logprobs, gradient
