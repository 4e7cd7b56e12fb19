"""Generation and update against `transformers` itself: `generate` and a plain training loop, at the same precision.

    python -m tests.benchmarks.plain_transformers [--sizes 0.2M 10M 100M] [--precision fp32] [--repeats 5]

Both sides have the same random Llama, prompts and answers: 8 prompts of 64 tokens x 8 answers of 32. The plain side generates
with `generate` (its default cache) in one batch, and trains on padded rows of a prompt and an answer each, with AdamW.
The sides alternate. Prints tokens of answers per CPU second (median) and ratios.
"""

import argparse
import random
import statistics
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from transformers import LlamaForCausalLM

from tests.benchmarks.llm_step import save_llama
from tests.benchmarks.results import timed
from training_core.algorithms.config import Grpo
from training_core.config.models import Policy
from training_core.llm.generation.base import SamplingSettings
from training_core.llm.generation.torch_engine import TorchEngine
from training_core.llm.learning.learner import Learner
from training_core.llm.learning.learner_config import Learner as LearnerSettings
from training_core.llm.models.loading import DTYPES, load_model, load_tokenizer
from training_core.types import Answer, Group, NoiseKey, Prompt
from workers.actors.machine import prepare_process

SIZES = {"0.2M": (64, 3, 4), "10M": (320, 8, 5), "100M": (896, 10, 14)}
"""Hidden size, layers and heads."""
PROMPTS, CANDIDATES, PROMPT_TOKENS, ANSWER_TOKENS = 8, 8, 64, 32
WORDS = tuple(f"w{number}" for number in range(200))


def main(words: Sequence[str] | None = None) -> None:
    """Every size in turn."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", nargs="+", choices=list(SIZES), default=list(SIZES))
    parser.add_argument("--precision", choices=["fp32", "bf16"], default="fp32")
    parser.add_argument("--repeats", type=int, default=5)
    asked = parser.parse_args(words)
    prepare_process(1)
    print("| size | part | transformers, tokens/s | Troupe, tokens/s | ratio |\n|---|---|---|---|---|")
    for size in asked.sizes:
        with tempfile.TemporaryDirectory() as folder:
            save_llama(Path(folder), WORDS, *SIZES[size])
            for part, ways in sides(Path(folder), asked.precision).items():
                plain, ours = medians(ways, asked.repeats)
                print(f"| {size} | {part} | {plain:.0f} | {ours:.0f} | {ours / plain:.2f} |", flush=True)


def medians(ways: Sequence[Callable[[], object]], repeats: int) -> list[float]:
    """Answer tokens per CPU second of each way; they alternate."""
    seconds: list[list[float]] = [[] for _ in ways]
    for repeat in range(repeats + 1):
        for way, times in zip(ways, seconds, strict=True):
            cpu, _ = timed(way)
            if repeat:  # the first warms up
                times.append(cpu)
    return [PROMPTS * CANDIDATES * ANSWER_TOKENS / statistics.median(times) for times in seconds]


def sides(folder: Path, precision: str) -> dict[str, list[Callable[[], object]]]:
    """Parts of a step, each by transformers and by Troupe."""
    model, tokenizer = load_model(folder, precision), load_tokenizer(folder)
    plain = LlamaForCausalLM.from_pretrained(folder, dtype=DTYPES[precision]).eval()
    dice = random.Random(0)
    texts = [[dice.randrange(6, 200) for _ in range(PROMPT_TOKENS)] for _ in range(PROMPTS)]
    prompts = [Prompt(text, CANDIDATES, NoiseKey(0, 0, 1, place, 0, 0)) for place, text in enumerate(texts)]
    engine, sampling = TorchEngine(model, tokenizer), SamplingSettings(max_tokens=ANSWER_TOKENS)
    groups = [
        Group(str(place), 0, text, answers, [1.0, -1.0] * 4, [1.0, -1.0] * 4, 1.0, 0, 1.0)
        for place, (text, answers) in enumerate(zip(texts, engine.generate(prompts, sampling), strict=True))
    ]
    settings = LearnerSettings(
        learning_rate=1e-12, schedule="constant", precision=precision, micro_batch_tokens=8192
    )
    learner = Learner(Policy(learner=settings), Grpo(kl_coefficient=0.0), model, 1)
    update = plain_update(plain, [(group.prompt_ids, answer) for group in groups for answer in group.answers])
    ids = torch.tensor(texts)

    def generate() -> Any:
        return plain.generate(
            ids,
            attention_mask=torch.ones_like(ids),
            do_sample=True,
            top_k=0,
            num_return_sequences=CANDIDATES,
            max_new_tokens=ANSWER_TOKENS,
            pad_token_id=tokenizer.pad_token_id,
        )

    return {
        "generation": [generate, lambda: engine.generate(prompts, sampling)],
        "update": [update, lambda: learner.update(groups, 1, 0, set())],
    }


def plain_update(model: LlamaForCausalLM, rows: Sequence[tuple[list[int], Answer]]) -> Callable[[], None]:
    """A step of AdamW on the policy-gradient loss, in one batch."""
    ids = torch.tensor([prompt + answer.token_ids for prompt, answer in rows])
    advantages = torch.tensor([1.0, -1.0]).repeat(len(rows) // 2).unsqueeze(1)
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-12, fused=True)

    def update() -> None:
        logits = (
            model(input_ids=ids, use_cache=False, logits_to_keep=ANSWER_TOKENS + 1).logits[:, :-1].float()
        )
        logprobs = logits.log_softmax(-1).gather(2, ids[:, -ANSWER_TOKENS:].unsqueeze(2)).squeeze(2)
        (-(logprobs * advantages).mean()).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        optimiser.zero_grad()

    return update


if __name__ == "__main__":
    main()
