"""The torch engine against the plain model."""

import torch

from tests.gpu.models import TINY, Size, make_model, make_tokenizer
from tests.gpu.naive import logprob_errors, naive_greedy, naive_log_probs
from tests.gpu.setting import Figures, Setting
from tests.gpu.tasks import make_prompts
from training_core.llm.generation.base import SamplingSettings
from training_core.llm.generation.torch_engine import TorchEngine
from training_core.types import Answer, Prompt

SIZE = Size(1024, 12, 16, 4, 2816, 32_000)
SPREAD = 3.0
TIE = 1e-4
"""Two tokens whose logprobs differ by less are equally likely: rounding decides between them."""


def check_engine(setting: Setting) -> Figures:
    """Greedy tokens, and logprobs of greedy and sampled answers, for both families and with and without static steps."""
    figures: Figures = {
        "greedy_tokens_that_differ": 0,
        "largest_logprob_error": 0.0,
        "largest_graph_error": 0.0,
        "compared_tokens": 0,
    }
    size = setting.pick(SIZE, TINY)
    tokenizer = make_tokenizer(size.vocabulary)
    for family in ("qwen2", "llama"):
        model = make_model(family, size, setting.device, spread=SPREAD)
        prompts = make_prompts(
            setting.pick(12, 3),
            setting.pick(6, 3),
            setting.pick(96, 9),
            size.vocabulary,
            prefix=setting.pick(40, 4),
        )
        for settings in (
            SamplingSettings(max_tokens=setting.pick(64, 8), greedy=True),
            SamplingSettings(max_tokens=setting.pick(64, 8)),
            SamplingSettings(max_tokens=setting.pick(64, 8), temperature=0.7),
        ):
            plain = TorchEngine(model, tokenizer, static=False).generate(prompts, settings)
            _compare_with_model(model, prompts, plain, settings, figures)
            engine = TorchEngine(model, tokenizer, static=True)
            for _ in range(2):  # the second call reuses the first one's store and graphs
                _compare_answers(plain, engine.generate(prompts, settings), figures)
        setting.note(figures)
    return figures


@torch.no_grad()
def _compare_with_model(
    model: torch.nn.Module,
    prompts: list[Prompt],
    answers: list[list[Answer]],
    settings: SamplingSettings,
    figures: Figures,
) -> None:
    errors = logprob_errors(model, prompts, answers, settings.temperature)
    figures["largest_logprob_error"] = max(figures["largest_logprob_error"], float(errors.max()))
    figures["compared_tokens"] += len(errors)
    for prompt, candidates in zip(prompts, answers, strict=True):
        if settings.greedy:
            figures["greedy_tokens_that_differ"] += _other_tokens(model, prompt, candidates[0], settings)


def _other_tokens(model: torch.nn.Module, prompt: Prompt, answer: Answer, settings: SamplingSettings) -> int:
    """Greedy tokens that differ from those of a plain loop, except ties."""
    expected = naive_greedy(model, prompt.token_ids, settings.max_tokens, 2)
    if answer.token_ids == expected:
        return 0
    log_probs = naive_log_probs(model, prompt.token_ids, answer.token_ids)
    chosen = log_probs.gather(-1, torch.tensor(answer.token_ids, device=log_probs.device).unsqueeze(-1))
    return int((log_probs.max(dim=-1).values - chosen.squeeze(-1) > TIE).sum())


def _compare_answers(expected: list[list[Answer]], actual: list[list[Answer]], figures: Figures) -> None:
    for candidates, others in zip(expected, actual, strict=True):
        for one, other in zip(candidates, others, strict=True):
            if one.token_ids != other.token_ids:  # from the first other token on, the texts differ
                common = next(
                    index
                    for index, pair in enumerate(zip(one.token_ids, other.token_ids, strict=False))
                    if pair[0] != pair[1]
                )
                figures["draws_that_differ"] = figures.get("draws_that_differ", 0) + 1
            else:
                common = len(one.token_ids)
            errors = [abs(a - b) for a, b in zip(one.logprobs[:common], other.logprobs[:common], strict=True)]
            figures["largest_graph_error"] = max(figures["largest_graph_error"], *errors, 0.0)
