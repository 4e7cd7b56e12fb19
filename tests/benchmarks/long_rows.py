"""Peak memory of an update with one long packed row on the CPU: a process for each length.

    python -m tests.benchmarks.long_rows [--lengths 4096 8192 16384 32768] [--attention auto]

A row holds one prompt of half the length and four responses of an eighth each. The model is a random Llama of about 0.3 million
parameters. Prints the peak of the process's memory above its memory before the update, CPU seconds, and the largest distance of
logprobs from those of single rows (fp32; for the shorter rows only, because single rows need as much time as all of the rest).
"""

import argparse
import json
import random
import resource
import subprocess
import sys
import time
from collections.abc import Sequence

import torch
from transformers import LlamaConfig, LlamaForCausalLM

from training_core.algorithms.config import Grpo
from training_core.config.models import Policy
from training_core.llm.learning.learner import Learner
from training_core.llm.learning.learner_config import Learner as LearnerSettings
from training_core.llm.learning.packing import collate, single_rows, tree_rows
from training_core.llm.learning.token_logprobs import ResponseForward
from training_core.types import Answer, Group
from workers.actors.machine import prepare_process

ANSWERS = 4
COMPARED = 8192
"""Longest row whose logprobs are compared with those of single rows."""


def main(words: Sequence[str] | None = None) -> None:
    """A row of the table for each length."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lengths", nargs="+", type=int, default=[4096, 8192, 16384, 32768])
    parser.add_argument("--attention", choices=["auto", "mask"], default="auto")
    parser.add_argument("--one", type=int, help="this length, in this process")
    asked = parser.parse_args(words)
    if asked.one:
        print(json.dumps(measured(asked.one, asked.attention)))
        return
    print(
        "| tokens of the row | peak memory, MiB | CPU seconds | largest distance of logprobs |\n|---|---|---|---|"
    )
    for length in asked.lengths:
        command = [
            sys.executable,
            "-m",
            "tests.benchmarks.long_rows",
            "--one",
            str(length),
            "--attention",
            asked.attention,
        ]
        output = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
        tokens, peak, seconds, distance = json.loads(output.splitlines()[-1])
        print(
            f"| {tokens} | {peak:.0f} | {seconds:.1f} | {'' if distance is None else f'{distance:.1e}'} |",
            flush=True,
        )


def measured(length: int, attention: str) -> tuple[int, float, float, float | None]:
    """Tokens of the row, MiB, CPU seconds and the distance."""
    prepare_process(1)
    model, group = tiny(2 * length), long_group(length)
    settings = LearnerSettings(
        learning_rate=1e-12, schedule="constant", micro_batch_tokens=length, packed_attention=attention
    )
    learner = Learner(Policy(learner=settings), Grpo(kl_coefficient=0.0), model, 1)
    before, start = peak_mib(), time.process_time()
    learner.update([group], 1, 0, set())
    seconds, peak = time.process_time() - start, peak_mib() - before
    rows = tree_rows([group], [0], learner._micro_batch_options().longest)
    distance = None
    if length <= COMPARED:
        packed, single = (logprobs(model, group, packed=packed) for packed in (True, False))
        distance = float((packed - single).abs().max())
    return max(len(row.tokens) for row in rows), peak, seconds, distance


@torch.no_grad()
def logprobs(model: LlamaForCausalLM, group: Group, *, packed: bool) -> torch.Tensor:
    """Logprobs of all answers, in their order."""
    rows = tree_rows([group], [0], 10**6) if packed else single_rows([group], [0])
    by_answer: dict[int, torch.Tensor] = {}
    for row in rows:
        batch = collate([row], 0, packed=packed, device=model.device)
        log_probs = ResponseForward(model).logits(model, batch).log_softmax(-1)
        parts = log_probs[batch.node_indices, batch.targets].chunk(len(row.answers))
        by_answer |= {index: part for (_, index), part in zip(row.answers, parts, strict=True)}
    return torch.cat([by_answer[index] for index in sorted(by_answer)])


def long_group(length: int) -> Group:
    """A prompt with answers that have nothing in common."""
    dice = random.Random(0)
    prompt = [dice.randrange(32) for _ in range(length // 2)]
    size = length // 2 // ANSWERS
    answers = [[dice.randrange(32) for _ in range(size)] for _ in range(ANSWERS)]
    said = [Answer(tokens, [-3.0] * size, [0] * size, "length", "") for tokens in answers]
    advantages = [1.0, -1.0] * (ANSWERS // 2)
    return Group("e", 0, prompt, said, advantages, advantages, 1.0, 0, 1.0)


def tiny(positions: int) -> LlamaForCausalLM:
    """A random model with contexts of this length."""
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=32, hidden_size=96, intermediate_size=288, num_hidden_layers=2, num_attention_heads=4,
        max_position_embeddings=positions, bos_token_id=None, eos_token_id=None,
    )  # fmt: skip
    return LlamaForCausalLM(config).eval()


def peak_mib() -> float:
    """The process's peak memory so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


if __name__ == "__main__":
    main()
