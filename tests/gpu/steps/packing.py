"""Packed updates against single rows and a naive loss."""

import torch

from tests.gpu.learners import gradients_of, make_learner, relative_error
from tests.gpu.models import TINY, Size, make_model
from tests.gpu.naive import naive_logprobs, naive_loss
from tests.gpu.setting import Figures, Setting
from tests.gpu.tasks import make_prompts, sampled_groups
from training_core.llm.learning.learner import Learner
from training_core.types import Group

SIZE = Size(1024, 8, 16, 4, 2816, 8_192)
MASKS = ("flex", "mask")


def check_packing(setting: Setting) -> Figures:
    """Logprobs and gradients of packed rows, by FlexAttention and by an explicit mask, against a naive loop."""
    size = setting.pick(SIZE, TINY)
    figures: Figures = {"largest_logprob_error": 0.0, "relative_gradient_error": 0.0, "kernels": []}
    for family in ("qwen2", "llama"):
        model = make_model(family, size, setting.device, spread=2.0)
        prompts = make_prompts(
            setting.pick(12, 3),
            setting.pick(8, 4),
            setting.pick(200, 20),
            size.vocabulary,
            prefix=setting.pick(150, 0),
        )
        groups = sampled_groups(model, prompts, setting.pick(120, 8))
        expected = _naive_gradient(model, groups)
        for attention in MASKS:
            learner = make_learner(
                model, packed_attention=attention, max_grad_norm=0.0, micro_batch_tokens=2048
            )
            _compare(learner, groups, expected, figures)
            figures["kernels"].append(
                f"{family}: {attention}: {'flex' if learner.forward.blocks else 'mask'}"
            )
        single = make_learner(model, packing=False, max_grad_norm=0.0)
        _compare(single, groups, expected, figures)
        setting.note(figures)
    figures["flex_kernels"] = sum(text.endswith(": flex") for text in figures["kernels"])
    return figures


def _compare(learner: Learner, groups: list[Group], expected: torch.Tensor, figures: Figures) -> None:
    gradient = gradients_of(learner, groups)
    error = relative_error(gradient, expected)
    figures["relative_gradient_error"] = max(figures["relative_gradient_error"], error)
    with torch.no_grad():
        for piece, logprobs in learner._answer_logprobs(groups):
            for (group, index), part in zip(
                piece.answers, logprobs.split(piece.lengths.tolist()), strict=True
            ):
                naive = naive_logprobs(learner.model, group.prompt_ids, group.answers[index].token_ids)
                largest = float((part - naive).abs().max())
                figures["largest_logprob_error"] = max(figures["largest_logprob_error"], largest)


def _naive_gradient(model: torch.nn.Module, groups: list[Group]) -> torch.Tensor:
    """The gradient (weights,) of the naive loss; one group's passes at a time."""
    tokens = sum(len(answer.token_ids) for group in groups for answer in group.answers)
    for group in groups:
        share = sum(len(answer.token_ids) for answer in group.answers) / tokens
        (naive_loss(model, [group]) * share).backward()
    gradient = torch.cat([weight.grad.flatten() for weight in model.parameters()])
    model.zero_grad(set_to_none=True)
    return gradient
