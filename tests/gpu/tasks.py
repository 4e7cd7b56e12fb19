"""Prompts, answers and groups of random tokens."""

import random
from collections.abc import Sequence

import torch
from transformers import PreTrainedModel

from tests.gpu.models import make_tokenizer
from training_core.llm.generation.base import SamplingSettings
from training_core.llm.generation.torch_engine import TorchEngine
from training_core.types import Answer, Group, NoiseKey, Prompt

FIRST_WORD = 6
"""Token ids below are special; see training_core.llm.base_models.tiny."""


def make_prompts(
    count: int, candidates: int, length: int, vocabulary: int, *, seed: int = 0, prefix: int = 0
) -> list[Prompt]:
    """Prompts of `length` random tokens; the first `prefix` are common to all."""
    numbers = random.Random(seed)

    def tokens(amount: int) -> list[int]:
        return [numbers.randrange(FIRST_WORD, vocabulary) for _ in range(amount)]

    common = tokens(prefix)
    return [
        Prompt(common + tokens(length - prefix), candidates, NoiseKey(seed, 0, 1, task, 0, 0))
        for task in range(count)
    ]


def make_groups(
    prompts: Sequence[Prompt], answers: Sequence[Sequence[Answer]], *, temperature: float = 1.0
) -> list[Group]:
    """Groups whose advantages alternate between candidates and sum to about zero."""
    groups = []
    for task, (prompt, candidates) in enumerate(zip(prompts, answers, strict=True)):
        middle = (len(candidates) - 1) / 2
        advantages = [(index - middle) / max(middle, 1.0) for index in range(len(candidates))]
        groups.append(
            Group(
                f"e{task}", 0, prompt.token_ids, list(candidates), advantages, advantages, temperature, 0, 1.0
            )
        )
    return groups


def sampled_groups(
    model: PreTrainedModel, prompts: Sequence[Prompt], tokens: int, temperature: float = 1.0
) -> list[Group]:
    """Groups of at most so many tokens that a new torch engine samples."""
    engine = TorchEngine(model, make_tokenizer(model.config.vocab_size))
    settings = SamplingSettings(max_tokens=tokens, temperature=temperature)
    return make_groups(prompts, engine.generate(prompts, settings), temperature=temperature)


def random_answers(
    prompts: Sequence[Prompt], length: int, vocabulary: int, seed: int = 1
) -> list[list[Answer]]:
    """Answers of `length` random tokens with logprobs of a uniform distribution."""
    generator = torch.Generator().manual_seed(seed)
    logprob = -float(torch.tensor(float(vocabulary)).log())
    return [
        [
            Answer(
                torch.randint(FIRST_WORD, vocabulary, (length,), generator=generator).tolist(),
                [logprob] * length,
                [0] * length,
                "length",
                "",
            )
            for _ in range(prompt.count)
        ]
        for prompt in prompts
    ]
