"""A step of TRL's GRPOTrainer on the same model, prompts and lengths as ours, in bf16."""

import json
import tempfile
import time
from pathlib import Path
from typing import Any
from uuid import uuid4

import torch

from tests.gpu.learners import make_learner
from tests.gpu.models import SIZES, TINY, Size, make_model, make_tokenizer
from tests.gpu.setting import Figures, Setting
from tests.gpu.tasks import make_groups, make_prompts
from tests.gpu.timing import device_name, synchronise, timed
from training_core.llm.generation.base import SamplingSettings
from training_core.llm.generation.torch_engine import TorchEngine

STEPS = 3


def compare_trl(setting: Setting) -> Figures:
    """Completions per second of both; an answer may not end before its limit, so both generate as many tokens."""
    size = setting.pick(SIZES["0.5B"], TINY)
    shape = {
        "prompts": setting.pick(16, 2),
        "candidates": setting.pick(8, 2),
        "prompt_tokens": setting.pick(256, 8),
        "tokens": setting.pick(256, 6),
    }
    figures: Figures = {"card": device_name(setting.device), **shape}
    completions = shape["prompts"] * shape["candidates"]
    figures["ours_per_second"] = completions / _ours(setting, size, shape)
    setting.note(figures)
    figures["trl_per_second"] = completions / _theirs(setting, size, shape)
    return figures | {"ratio": figures["ours_per_second"] / figures["trl_per_second"]}


def _ours(setting: Setting, size: Size, shape: dict[str, int]) -> float:
    model = _model(setting, size)
    learner = make_learner(model, precision="bf16", learning_rate=1e-6, micro_batch_tokens=16_384)
    engine = TorchEngine(model, make_tokenizer(size.vocabulary))
    prompts = make_prompts(shape["prompts"], shape["candidates"], shape["prompt_tokens"], size.vocabulary - 1)

    def step() -> None:
        answers = engine.generate(prompts, SamplingSettings(max_tokens=shape["tokens"]))
        learner.update(make_groups(prompts, answers), 1, 0, set())
        engine.conversations.clear()

    return min(timed(step, setting.device) for _ in range(STEPS))


def _theirs(setting: Setting, size: Size, shape: dict[str, int]) -> float:
    import datasets
    from datasets import fingerprint
    from transformers import TrainerCallback
    from trl import GRPOConfig, GRPOTrainer

    # The package's own hash of a function fails with some versions of dill; nothing of this step is cached.
    fingerprint.Hasher.hash = classmethod(lambda cls, value: uuid4().hex)
    seconds: list[float] = []

    class Pace(TrainerCallback):
        """Times every step."""

        def on_step_begin(self, *args: Any, **more: Any) -> None:
            self.start = _now(setting)

        def on_step_end(self, *args: Any, **more: Any) -> None:
            seconds.append(_now(setting) - self.start)

    tokenizer = make_tokenizer(size.vocabulary)
    prompts = make_prompts(shape["prompts"], shape["candidates"], shape["prompt_tokens"], size.vocabulary - 1)
    rows = [{"prompt": tokenizer.decode(prompt.token_ids)} for prompt in prompts]
    total = shape["prompts"] * shape["candidates"]
    with tempfile.TemporaryDirectory() as folder:
        config = GRPOConfig(
            output_dir=str(Path(folder) / "trl"),
            per_device_train_batch_size=total,
            num_generations=shape["candidates"],
            max_completion_length=shape["tokens"],
            max_steps=STEPS,
            learning_rate=1e-6,
            beta=0.0,
            loss_type="grpo",
            report_to="none",
            save_strategy="no",
            logging_strategy="no",
            disable_tqdm=True,
            use_cpu=setting.small,
            bf16=False,
            gradient_checkpointing=False,
            seed=0,
        )
        GRPOTrainer(
            model=_model(setting, size),
            reward_funcs=lambda completions, **more: [float(len(json.dumps(text))) for text in completions],
            args=config,
            train_dataset=datasets.Dataset.from_list(rows),
            processing_class=tokenizer,
            callbacks=[Pace()],
        ).train()
    return min(seconds)


def _model(setting: Setting, size: Size) -> Any:
    model = make_model("qwen2", size, setting.device, torch.bfloat16)
    model.generation_config.eos_token_id = None
    return model


def _now(setting: Setting) -> float:
    synchronise(setting.device)
    return time.perf_counter()
