"""A whole step, sampling and update, compared with TRL's GRPOTrainer: in turns in one run, one thread each.

    make trl                                   # once: TRL in an environment of its own, var/trl
    python -m tests.benchmarks.llm_step [--trl var/trl/bin/python] [--repeats 7] [--shape 0] [--setting SETTING]

Same model, same prompts, same number of candidates, same length (the end-of-text token is none that the model can generate).
Without --setting every setting of TRL's runs a few steps first, and the best of them is compared. The short set takes the setting
that was best so far.
"""

import argparse
import json
import os
import random
import statistics
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from tests.benchmarks.results import ROOT, Benchmark, Ratio, Side, cpu_flags, run_alone, timed
from tests.benchmarks.trl_step import SETTINGS
from training_core.algorithms.at_grpo import Normalisation, normalised_advantages
from training_core.algorithms.config import Grpo
from training_core.config.models import Policy
from training_core.llm.base_models.warm_start import word_tokenizer
from training_core.llm.generation.base import SamplingSettings
from training_core.llm.generation.torch_engine import TorchEngine
from training_core.llm.learning.learner import Learner
from training_core.llm.learning.learner_config import Learner as LearnerSettings
from training_core.llm.models.loading import load_model, load_tokenizer
from training_core.types import Group, NoiseKey, Prompt
from workers.actors.machine import prepare_process


@dataclass(frozen=True)
class Shape:
    """What a step computes."""

    prompt_tokens: int
    answer_tokens: int
    hidden: int
    layers: int
    prompts: int = 32
    candidates: int = 8


SHAPES = (Shape(12, 4, 64, 3), Shape(128, 32, 256, 4))
SMALL = (Shape(6, 2, 16, 1, prompts=4, candidates=2),)
TRL = ROOT / "var" / "trl" / "bin" / "python"
BF16 = bool({"avx512_bf16", "amx_bf16"} & cpu_flags())
"""Whether the CPU has instructions for bf16."""
BEST = "bf16 weights, one micro-batch" if BF16 else "fp32, one micro-batch"
"""The setting of TRL's that was fastest at both shapes. Without the instructions bf16 is several times slower than fp32."""
KEEPS_MEMORY = {"MALLOC_TRIM_THRESHOLD_": str(256 * 1024**2), "MALLOC_MMAP_THRESHOLD_": str(64 * 1024**2)}
"""What our workers' processes set by themselves (workers/actors/machine.py), for TRL's."""
TURN = 3
"""Steps of a side in one turn: alone on its core it would make them all one after another."""
LARGE = 256
"""Hidden size from which a turn has one step, which takes seconds."""
PRECISIONS = ("fp32", "bf16")
WORDS = tuple(f"w{number}" for number in range(26))


def save_llama(folder: Path, words: Sequence[str], hidden: int, layers: int, heads: int) -> None:
    """Write a random Llama that never ends an answer, and a tokenizer of these words."""
    tokenizer = word_tokenizer(words)
    tokenizer.add_special_tokens({"eos_token": "<never>"})  # its id is beyond the model's vocabulary
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=len(tokenizer) - 1,
        hidden_size=hidden,
        intermediate_size=4 * hidden,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        max_position_embeddings=512,
        bos_token_id=None,
        eos_token_id=None,
        pad_token_id=tokenizer.pad_token_id,
    )
    LlamaForCausalLM(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def write_model(folder: Path, shape: Shape) -> None:
    """Write a random Llama, its tokenizer, and the prompts as text, which both sides read."""
    folder.mkdir(parents=True, exist_ok=True)
    save_llama(folder, WORDS, shape.hidden, shape.layers, heads=4)
    dice = random.Random(0)
    texts = [" ".join(dice.choices(WORDS, k=shape.prompt_tokens)) for _ in range(shape.prompts)]
    (folder / "prompts.json").write_text(json.dumps(texts))


def our_step(folder: Path, shape: Shape, precision: str) -> Callable[[], None]:
    """One step of Troupe's torch engine and learner, colocated."""
    model, tokenizer = load_model(folder, precision), load_tokenizer(folder)
    settings = LearnerSettings(
        learning_rate=1e-6, schedule="constant", precision=precision, micro_batch_tokens=16384
    )
    learner = Learner(Policy(learner=settings), Grpo(kl_coefficient=0.0), model, 1)
    engine = TorchEngine(model, tokenizer)
    texts = json.loads((folder / "prompts.json").read_text())
    sampling = SamplingSettings(max_tokens=shape.answer_tokens)
    steps = iter(range(1, 10**6))

    def step() -> None:
        number = next(steps)
        ids = tokenizer(texts)["input_ids"]
        prompts = [
            Prompt(tokens, shape.candidates, NoiseKey(0, 0, number, index, 0, 0))
            for index, tokens in enumerate(ids)
        ]
        answers_of = engine.generate(prompts, sampling)
        assert all(
            len(answer.token_ids) == shape.answer_tokens for answers in answers_of for answer in answers
        )
        rewards = np.array(
            [[float(len(set(answer.text.split()))) for answer in answers] for answers in answers_of]
        )
        owners = np.arange(shape.prompts).repeat(shape.candidates)
        advantages = normalised_advantages(rewards.flatten(), owners, Normalisation()).reshape(rewards.shape)
        groups = [
            Group(str(index), 0, prompts[index].token_ids, answers, paid, worth, 1.0, 0, 1.0)
            for index, (answers, paid, worth) in enumerate(
                zip(answers_of, rewards.tolist(), advantages.tolist(), strict=True)
            )
        ]
        learner.update(groups, 1, engine.version, set())

    return step


class Trl:
    """A trainer in another process, started at its first step, which makes a step when it receives a line."""

    def __init__(self, python: Path, folder: Path, shape: Shape, setting: str) -> None:
        self._command = [
            str(python),
            "-m",
            "tests.benchmarks.trl_step",
            str(folder),
            json.dumps(asdict(shape)),
            setting,
        ]
        self._process: subprocess.Popen[str] | None = None

    def step(self) -> tuple[float, float]:
        """CPU and wall seconds of one step."""
        if self._process is None:
            self._process = self._start()
            self._line("ready")
        assert self._process.stdin
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        cpu, wall = json.loads(self._line("["))
        return cpu, wall

    def turn(self, steps: int) -> tuple[float, float]:
        """Mean CPU and wall seconds of a step over several."""
        seconds = [self.step() for _ in range(steps)]
        return statistics.mean(cpu for cpu, _ in seconds), statistics.mean(wall for _, wall in seconds)

    def close(self) -> None:
        """End it."""
        if self._process:
            self._process.kill()
            self._process.wait()

    def _start(self) -> "subprocess.Popen[str]":
        own = {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}
        return subprocess.Popen(
            self._command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            env=os.environ | KEEPS_MEMORY | own,
        )

    def _line(self, start: str) -> str:
        assert self._process and self._process.stdout and self._process.stderr
        for line in self._process.stdout:
            if line.startswith(start):
                return line
        raise SystemExit(f"TRL ended:\n{self._process.stderr.read()}")


def best_of_trl(python: Path, folder: Path, shape: Shape) -> str:
    """The fastest of TRL's settings; prints the completions per CPU second of each."""
    seconds: dict[str, float] = {}
    for setting in SETTINGS:
        trl = Trl(python, folder, shape, setting)
        seconds[setting] = statistics.median(trl.step()[0] for _ in range(3))
        trl.close()
        print(f"  TRL, {setting}: {shape.prompts * shape.candidates / seconds[setting]:.0f}/s", flush=True)
    return min(seconds, key=lambda setting: seconds[setting])


def benchmark(
    *,
    small: bool = False,
    shapes: Sequence[Shape] | None = None,
    python: Path = TRL,
    setting: str | None = BEST,
) -> Benchmark:
    """Steps of each shape with TRL and with both precisions of ours; `setting` None: the best of TRL's."""
    chosen = tuple(shapes or (SMALL if small else SHAPES))
    ways = ("TRL", *(f"Troupe {precision}" for precision in PRECISIONS))
    return Benchmark(
        about="CPU time of a training step (sampling and update), one thread",
        units={f"{way}, {title(shape)}": "CPU ms/step" for shape in chosen for way in ways}
        | {f"{way}, {title(shape)}, by the clock": "ms/step" for shape in chosen for way in ways},
        open_sides=lambda: open_sides(chosen, python, setting),
        ratios=tuple(
            Ratio(f"TRL / {way}, {title(shape)}", f"TRL, {title(shape)}", f"{way}, {title(shape)}")
            for shape in chosen
            for way in ways[1:]
        ),
        settings={
            "shapes": {title(shape): asdict(shape) for shape in chosen},
            "TRL": setting or "best of all",
        },
        foreign=frozenset(f"TRL, {title(shape)}" for shape in chosen),
        missing="" if python.exists() else f"TRL is not installed ({python} does not exist); run make trl",
    )


def title(shape: Shape) -> str:
    """The name of a shape in figures."""
    return f"hidden {shape.hidden}"


@contextmanager
def open_sides(shapes: Sequence[Shape], python: Path, setting: str | None) -> Iterator[Mapping[str, Side]]:
    """Each way at each shape; ours are warm, TRL's are started by their first turn."""
    prepare_process(1)
    sides: dict[str, Side] = {}
    trainers = []
    with tempfile.TemporaryDirectory() as name:
        for shape in shapes:
            folder = Path(name) / title(shape)
            write_model(folder, shape)
            trl = Trl(python, folder, shape, setting or best_of_trl(python, folder, shape))
            trainers.append(trl)
            steps = TURN if shape.hidden < LARGE else 1
            turns = {"TRL": lambda trl=trl, steps=steps: trl.turn(steps)}
            for precision in PRECISIONS:
                step = our_step(folder, shape, precision)
                step()  # warms up
                turns[f"Troupe {precision}"] = lambda step=step, steps=steps: timed(step, steps)
            sides |= {
                f"{way}, {title(shape)}": side_of(f"{way}, {title(shape)}", turn)
                for way, turn in turns.items()
            }
        try:
            yield sides
        finally:
            for trl in trainers:
                trl.close()


def side_of(name: str, turn: Callable[[], tuple[float, float]]) -> Side:
    """A side whose figures are the CPU and the wall milliseconds of a turn."""

    def side() -> Mapping[str, float]:
        cpu, wall = turn()
        return {name: cpu * 1e3, f"{name}, by the clock": wall * 1e3}

    return side


def main() -> None:
    """Every shape, or one."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--trl", type=Path, default=TRL, help="a Python that has TRL")
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--shape", type=int, choices=range(len(SHAPES)), help="default: both")
    parser.add_argument(
        "--setting", choices=SETTINGS, help="TRL's; default: all are tried, and the best is compared"
    )
    arguments = parser.parse_args()
    shapes = SHAPES if arguments.shape is None else [SHAPES[arguments.shape]]
    run_alone(
        benchmark(shapes=shapes, python=arguments.trl, setting=arguments.setting),
        "llm_step",
        arguments.repeats,
    )


if __name__ == "__main__":
    main()
