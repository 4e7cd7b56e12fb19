"""A whole step, sampling and update, against TRL's GRPOTrainer: side by side in one run, one thread each.

    make trl                                   # once: TRL in an environment of its own, var/trl
    python -m tests.benchmarks.llm_step [--trl var/trl/bin/python] [--repeats 7] [--shape 0]

Same model, same prompts, same number of candidates, same length (the end-of-text token is none that the model can say).
First every setting of TRL's runs a few steps; the best of them then takes turns with ours. Prints completions per CPU
second (median of the repeats) and ratios; a clock never fails a test run.
"""

import argparse
import json
import os
import random
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from tests.benchmarks.trl_step import SETTINGS
from training_core.algorithms.advantages import Normalisation, normalised_advantages
from training_core.algorithms.grpo.config import Grpo
from training_core.config.models import Policy
from training_core.llm.base_models.word_tokenizer import word_tokenizer
from training_core.llm.generation.base import SamplingSettings
from training_core.llm.generation.torch.engine import TorchEngine
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
KEEPS_MEMORY = {"MALLOC_TRIM_THRESHOLD_": str(256 * 1024**2), "MALLOC_MMAP_THRESHOLD_": str(64 * 1024**2)}
"""What our workers' processes set by themselves (workers/actors/machine.py), for TRL's."""
TURN = 3
"""Steps that each side makes before the other comes: alone on its core it would make them all one after another."""
WORDS = tuple(f"w{number}" for number in range(26))


def write_model(folder: Path, shape: Shape) -> None:
    """A random Llama, its tokenizer, and the prompts as text, where both sides read them."""
    tokenizer = word_tokenizer(WORDS)
    tokenizer.add_special_tokens({"eos_token": "<never>"})  # its id is beyond the model's vocabulary
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=len(tokenizer) - 1,
        hidden_size=shape.hidden,
        intermediate_size=4 * shape.hidden,
        num_hidden_layers=shape.layers,
        num_attention_heads=4,
        max_position_embeddings=512,
        bos_token_id=None,
        eos_token_id=None,
        pad_token_id=tokenizer.pad_token_id,
    )
    LlamaForCausalLM(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
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
            Prompt(tokens, shape.candidates, NoiseKey(0, 0, number, place, 0, 0))
            for place, tokens in enumerate(ids)
        ]
        said = engine.generate(prompts, sampling)
        assert all(len(answer.token_ids) == shape.answer_tokens for answers in said for answer in answers)
        rewards = np.array([[float(len(set(answer.text.split()))) for answer in answers] for answers in said])
        owners = np.arange(shape.prompts).repeat(shape.candidates)
        advantages = normalised_advantages(rewards.flatten(), owners, Normalisation()).reshape(rewards.shape)
        groups = [
            Group(str(place), 0, prompts[place].token_ids, answers, paid, worth, 1.0, 0, 1.0)
            for place, (answers, paid, worth) in enumerate(
                zip(said, rewards.tolist(), advantages.tolist(), strict=True)
            )
        ]
        learner.update(groups, 1, engine.version, set())

    return step


class Trl:
    """A trainer in another process, which makes a step when it is told to."""

    def __init__(self, python: str, folder: Path, shape: Shape, setting: str) -> None:
        line = [python, "-m", "tests.benchmarks.trl_step", str(folder), json.dumps(asdict(shape)), setting]
        self._process = subprocess.Popen(
            line, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            env=os.environ | KEEPS_MEMORY | {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"},
        )  # fmt: skip
        self._line("ready")

    def step(self) -> tuple[float, float]:
        """CPU and wall seconds of one step."""
        assert self._process.stdin
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        cpu, wall = json.loads(self._line("["))
        return cpu, wall

    def close(self) -> None:
        """End it."""
        self._process.kill()
        self._process.wait()

    def _line(self, start: str) -> str:
        assert self._process.stdout and self._process.stderr
        for line in self._process.stdout:
            if line.startswith(start):
                return line
        raise SystemExit(f"TRL ended:\n{self._process.stderr.read()}")


def timed(step: Callable[[], None]) -> tuple[float, float]:
    """CPU and wall seconds of one of our steps."""
    cpu, wall = time.process_time(), time.perf_counter()
    step()
    return time.process_time() - cpu, time.perf_counter() - wall


def best_of_trl(python: str, folder: Path, shape: Shape) -> str:
    """The fastest of TRL's settings, each told with its completions per CPU second."""
    seen: dict[str, float] = {}
    for setting in SETTINGS:
        trl = Trl(python, folder, shape, setting)
        seen[setting] = statistics.median(trl.step()[0] for _ in range(3))
        trl.close()
        print(f"  TRL, {setting}: {shape.prompts * shape.candidates / seen[setting]:.0f}/s", flush=True)
    return min(seen, key=lambda setting: seen[setting])


def compare(python: str, shape: Shape, repeats: int, setting: str | None) -> None:
    """One shape: print what was seen."""
    answers = shape.prompts * shape.candidates
    print(f"\n{shape.prompts} prompts of {shape.prompt_tokens} tokens x {shape.candidates} answers of "
          f"{shape.answer_tokens}, hidden {shape.hidden} x {shape.layers} layers", flush=True)  # fmt: skip
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_model(folder, shape)
        setting = setting or best_of_trl(python, folder, shape)
        trl = Trl(python, folder, shape, setting)
        ours = {precision: our_step(folder, shape, precision) for precision in ("fp32", "bf16")}
        seconds: dict[str, list[tuple[float, float]]] = {way: [] for way in ("TRL", *ours)}
        for step in ours.values():
            step()  # warms up
        for _ in range(repeats):
            seconds["TRL"].extend(trl.step() for _ in range(TURN))
            for precision, step in ours.items():
                seconds[precision].extend(timed(step) for _ in range(TURN))
        trl.close()
    base = statistics.median(cpu for cpu, _ in seconds["TRL"])
    for way, seen in seconds.items():
        cpu, wall = (statistics.median(values) for values in zip(*seen, strict=True))
        title = f"TRL ({setting})" if way == "TRL" else f"Troupe ({way})"
        print(f"  {title}: {answers / cpu:.0f} completions per CPU second ({answers / wall:.0f}/s by the clock), "
              f"ratio {base / cpu:.2f}")  # fmt: skip


def main() -> None:
    """Every shape, or one."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trl", default="var/trl/bin/python", help="a Python that has TRL")
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--shape", type=int, help="0 or 1; default: both")
    parser.add_argument(
        "--setting", choices=SETTINGS, help="TRL's; default: all are tried, and the best is taken"
    )
    arguments = parser.parse_args()
    prepare_process(1)
    for place, shape in enumerate(SHAPES):
        if arguments.shape in (None, place):
            compare(arguments.trl, shape, arguments.repeats, arguments.setting)


if __name__ == "__main__":
    main()
