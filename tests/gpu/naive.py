"""Independent computations that the steps compare with: one sequence at a time, no cache, no padding, no packing."""

from collections.abc import Sequence

import torch
from torch import Tensor
from transformers import PreTrainedModel

from training_core.types import Answer, Group, Prompt


def naive_log_probs(
    model: PreTrainedModel, prompt: Sequence[int], answer: Sequence[int], temperature: float = 1.0
) -> Tensor:
    """Log-probabilities (tokens, V) at the positions that predict the answer's tokens."""
    text = torch.tensor([[*prompt, *answer]], device=model.device)
    logits: Tensor = model(input_ids=text, use_cache=False).logits[0].float()
    first = len(prompt) - 1
    return (logits[first : first + len(answer)] / temperature).log_softmax(dim=-1)


def naive_logprobs(
    model: PreTrainedModel, prompt: Sequence[int], answer: Sequence[int], temperature: float = 1.0
) -> Tensor:
    """Log-probabilities (tokens,) of the answer's tokens."""
    log_probs = naive_log_probs(model, prompt, answer, temperature)
    return log_probs[torch.arange(len(answer)), torch.tensor(list(answer), device=log_probs.device)]


@torch.no_grad()
def logprob_errors(
    model: PreTrainedModel,
    prompts: Sequence[Prompt],
    answers: Sequence[Sequence[Answer]],
    temperature: float = 1.0,
) -> Tensor:
    """Distances (tokens of all answers,) of the stored logprobs from the model's."""
    errors = []
    for prompt, candidates in zip(prompts, answers, strict=True):
        for answer in candidates:
            expected = naive_logprobs(model, prompt.token_ids, answer.token_ids, temperature)
            errors.append((torch.tensor(answer.logprobs, device=expected.device) - expected).abs())
    return torch.cat(errors)


@torch.no_grad()
def naive_greedy(model: PreTrainedModel, prompt: Sequence[int], count: int, stop: int) -> list[int]:
    """The most likely tokens, at most `count`; the whole text is computed again for every token."""
    answer: list[int] = []
    while len(answer) < count and stop not in answer:
        text = torch.tensor([[*prompt, *answer]], device=model.device)
        answer.append(int(model(input_ids=text, use_cache=False).logits[0, -1].argmax()))
    return answer


def naive_loss(model: PreTrainedModel, groups: Sequence[Group], clip: float = 0.2) -> Tensor:
    """The clipped loss (), averaged over all tokens: max(-r A, -clip(r) A)."""
    losses = []
    for group in groups:
        for answer, advantage in zip(group.answers, group.advantages, strict=True):
            logprobs = naive_logprobs(model, group.prompt_ids, answer.token_ids, group.temperature)
            ratios = (logprobs - torch.tensor(answer.logprobs, device=logprobs.device)).exp()
            clipped = ratios.clamp(1 - clip, 1 + clip)
            losses.append(torch.maximum(-ratios * advantage, -clipped * advantage))
    return torch.cat(losses).mean()
