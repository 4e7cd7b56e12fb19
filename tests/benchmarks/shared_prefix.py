"""The saving by shared prefixes: generation and update with and without them, in turns in one run, on one core.

    python -m tests.benchmarks.shared_prefix [--model FOLDER] [--repeats 5]

Prints CPU milliseconds and ratios. Without a model, a random Llama of about 0.23 million parameters answers, at a temperature
that leaves about as much choice as training does.
"Groups" is one policy's share of an iteration of plan_path_duo: 48 tasks x 4 turns x 8 candidates.
"""

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import torch
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedModel, PreTrainedTokenizerBase

from tests.benchmarks.results import Benchmark, Ratio, Side, run_program, timed
from training_core.algorithms.config import AtGrpo
from training_core.config.models import Policy
from training_core.llm.base_models.warm_start import word_tokenizer
from training_core.llm.generation.base import SamplingSettings
from training_core.llm.generation.torch_engine import TorchEngine
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
        Prompt(texts[index % distinct], workload.candidates, NoiseKey(0, 0, 1, index, 0, 0))
        for index in range(workload.groups)
    ]


def generation_ways(
    prompts: list[Prompt],
    settings: SamplingSettings,
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
) -> dict[str, Callable[[], object]]:
    """Sample with and without shared prefixes, in four calls, one for each turn."""
    turns = [prompts[turn::4] for turn in range(4)]
    engines = {
        "generate, shared": TorchEngine(model, tokenizer),
        "generate, unshared": TorchEngine(model, tokenizer, share_prefix=False),
    }
    return {
        name: lambda engine=engine: [engine.generate(turn, settings) for turn in turns]
        for name, engine in engines.items()
    }


def sampled_groups(
    prompts: list[Prompt],
    settings: SamplingSettings,
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
) -> list[Group]:
    """Sampled answers as groups with constructed advantages."""
    groups = []
    answers_of = TorchEngine(model, tokenizer).generate(prompts, settings)
    for index, (prompt, answers) in enumerate(zip(prompts, answers_of, strict=True)):
        advantages = [(-1.0) ** number for number in range(len(answers))]
        groups.append(Group(str(index), 0, prompt.token_ids, answers, advantages, advantages, 0.7, 0, 1.0))
    return groups


def update_ways(groups: list[Group], model: PreTrainedModel) -> dict[str, Callable[[], object]]:
    """Update with a KL penalty, packed and unpacked; a learning rate of next to nothing keeps the data fresh."""
    settings = LearnerSettings(learning_rate=1e-12, schedule="constant")
    ways: dict[str, Callable[[], object]] = {}
    for name, packing in (("update, packed", True), ("update, unpacked", False)):
        policy = Policy(learner=settings.model_copy(update={"packing": packing}))
        learner = Learner(policy, AtGrpo(kl_coefficient=0.03), model, 1)
        assert learner.packed == packing
        ways[name] = lambda learner=learner: learner.update(groups, 1, 0)
    return ways


PAIRS = (("generate, unshared", "generate, shared"), ("update, unpacked", "update, packed"))
"""Ways that are compared: the slower, the faster."""


def benchmark(*, small: bool = False, model: Path | None = None) -> Benchmark:
    """Each way with each workload, on the model in the folder `model` or a random one."""
    workloads = tuple(replace(workload, groups=8) for workload in WORKLOADS[:1]) if small else WORKLOADS
    return Benchmark(
        about="CPU time of generation and update with and without shared prefixes, one thread",
        units={
            f"{way}, {workload.name}": "CPU ms" for workload in workloads for pair in PAIRS for way in pair
        },
        open_sides=lambda: open_sides(workloads, model),
        ratios=tuple(
            Ratio(
                f"{slow} / {fast.split(', ')[1]}, {workload.name}",
                f"{slow}, {workload.name}",
                f"{fast}, {workload.name}",
            )
            for workload in workloads
            for slow, fast in PAIRS
        ),
        settings={"workloads": [asdict(workload) for workload in workloads], "model": str(model or "random")},
    )


@contextmanager
def open_sides(workloads: Sequence[Workload], folder: Path | None) -> Iterator[Mapping[str, Side]]:
    """Each way with each workload, warm."""
    torch.set_num_threads(1)
    model, tokenizer = (load_model(folder), load_tokenizer(folder)) if folder else random_model()
    sides: dict[str, Side] = {}
    for workload in workloads:
        prompts = prompts_of(workload, len(tokenizer))
        settings = SamplingSettings(temperature=0.7, max_tokens=workload.max_tokens)
        ways = generation_ways(prompts, settings, model, tokenizer)
        ways |= update_ways(sampled_groups(prompts, settings, model, tokenizer), model)
        for name, way in ways.items():
            way()  # warms up
            figure = f"{name}, {workload.name}"
            sides[figure] = lambda figure=figure, way=way: {figure: timed(way)[0] * 1e3}
    yield sides


if __name__ == "__main__":
    model = {"type": Path, "help": "a Hugging Face folder; default: a random tiny Llama"}
    run_program("shared_prefix", benchmark, __doc__, model=model)
