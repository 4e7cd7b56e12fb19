"""What shared prefixes save: generation and update with and without them, side by side in one run, on one core.

    python -m tests.benchmarks.shared_prefix [--model FOLDER] [--repeats 5]

Prints CPU seconds (the least of the repeats) and ratios; a clock never fails a test run. Without a model, a random
Llama of about 0.23 million parameters speaks, at a temperature that leaves about as much choice as training does.
"Groups" is one policy's share of an iteration of plan_path_duo: 48 tasks x 4 turns x 8 candidates.
"""

import argparse
import random
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedModel, PreTrainedTokenizerBase

from training_core.algorithms.at_grpo.config import AtGrpo
from training_core.config.models import Policy
from training_core.llm.base_models.word_tokenizer import word_tokenizer
from training_core.llm.generation.base import SamplingSettings
from training_core.llm.generation.torch.engine import TorchEngine
from training_core.llm.learning.learner import Learner
from training_core.llm.learning.learner_config import Learner as LearnerSettings
from training_core.llm.models.loading import load_model, load_tokenizer
from training_core.types import Group, NoiseKey, Prompt


@dataclass(frozen=True)
class Workload:
    """One policy's part of an iteration."""

    name: str
    prompt_tokens: int
    distinct_share: float
    """Share of the groups' prompts that are distinct."""
    groups: int = 192
    candidates: int = 8
    max_tokens: int = 8


WORKLOADS = (
    Workload("short prompts, many alike", 8, 0.35),
    Workload("short prompts, all distinct", 18, 1.0),
    Workload("long prompts, all distinct", 150, 1.0, groups=48),
)


def random_model() -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    """A Llama whose next tokens are neither certain nor uniform."""
    tokenizer = word_tokenizer(tuple(f"w{number}" for number in range(26)))
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=96,
        intermediate_size=288,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=4,
        max_position_embeddings=256,
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    model = LlamaForCausalLM(config).eval()
    with torch.no_grad():
        model.lm_head.weight.mul_(22.0)
        model.model.embed_tokens.weight.mul_(20.0)
    return model, tokenizer


def prompts_of(workload: Workload, vocabulary: int) -> list[Prompt]:
    """Random prompts; lengths vary by a fifth."""
    dice = random.Random(0)
    spread = max(workload.prompt_tokens // 5, 1)
    lengths = [workload.prompt_tokens + dice.randint(-spread, spread) for _ in range(workload.groups)]
    texts = [[dice.randrange(6, vocabulary) for _ in range(length)] for length in lengths]
    distinct = max(int(workload.distinct_share * len(texts)), 1)
    return [
        Prompt(texts[place % distinct], workload.candidates, NoiseKey(0, 0, 1, place, 0, 0))
        for place in range(workload.groups)
    ]


def side_by_side(ways: dict[str, Callable[[], object]], repeats: int) -> dict[str, float]:
    """CPU seconds of each way: the least of the repeats, which take turns."""
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(repeats):
        for name, way in ways.items():
            start = time.process_time()
            way()
            seconds[name].append(time.process_time() - start)
    return {name: min(values) for name, values in seconds.items()}


def generation(
    workload: Workload, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, repeats: int
) -> tuple[dict[str, float], list[Group]]:
    """Seconds to sample, and what was sampled as groups with made-up advantages. Four calls, one a turn."""
    prompts = prompts_of(workload, len(tokenizer))
    settings = SamplingSettings(temperature=0.7, max_tokens=workload.max_tokens)
    turns = [prompts[turn::4] for turn in range(4)]
    engines = {
        "shared": TorchEngine(model, tokenizer),
        "unshared": TorchEngine(model, tokenizer, share_prefix=False),
    }
    ways = {
        name: lambda engine=engine: [engine.generate(turn, settings) for turn in turns]
        for name, engine in engines.items()
    }
    seconds = side_by_side(ways, repeats)
    groups = []
    for place, (prompt, answers) in enumerate(
        zip(prompts, engines["shared"].generate(prompts, settings), strict=True)
    ):
        advantages = [(-1.0) ** index for index in range(len(answers))]
        groups.append(Group(str(place), 0, prompt.token_ids, answers, advantages, advantages, 0.7, 0, 1.0))
    return seconds, groups


def update(groups: list[Group], model: PreTrainedModel, repeats: int) -> dict[str, float]:
    """Seconds for one update with a KL penalty; a learning rate of next to nothing keeps the data fresh."""
    settings = LearnerSettings(learning_rate=1e-12, schedule="constant")
    ways: dict[str, Callable[[], object]] = {}
    for name, packing in (("packed", True), ("unpacked", False)):
        policy = Policy(learner=settings.model_copy(update={"packing": packing}))
        learner = Learner(policy, AtGrpo(kl_coefficient=0.03), model, 1)
        assert learner.packed == packing
        ways[name] = lambda learner=learner: learner.update(groups, 1, 0)
    return side_by_side(ways, repeats)


def main() -> None:
    """Run every workload and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", type=Path, help="a Hugging Face folder; default: a random tiny Llama")
    parser.add_argument("--repeats", type=int, default=5)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    if arguments.model:
        model, tokenizer = load_model(arguments.model), load_tokenizer(arguments.model)
    else:
        model, tokenizer = random_model()
    print(f"{sum(weight.numel() for weight in model.parameters())} parameters, 1 thread, CPU seconds")
    for workload in WORKLOADS:
        seconds, groups = generation(workload, model, tokenizer, arguments.repeats)
        said = [answer for group in groups for answer in group.answers]
        distinct = sum(len({tuple(answer.token_ids) for answer in group.answers}) for group in groups)
        tokens = sum(len(answer.token_ids) for answer in said)
        learnt = update([replace(group) for group in groups], model, arguments.repeats)
        print(f"\n{workload.name}: {len(groups)} groups x {workload.candidates}, {tokens} tokens said, "
              f"{distinct / len(groups):.1f} distinct answers a group")  # fmt: skip
        for title, (quick, slow) in (
            ("generate", ("shared", "unshared")),
            ("update", ("packed", "unpacked")),
        ):
            both = seconds if title == "generate" else learnt
            print(
                f"  {title:9} {quick} {both[quick]:.3f}  {slow} {both[slow]:.3f}  ratio {both[slow] / both[quick]:.1f}"
            )


if __name__ == "__main__":
    main()
