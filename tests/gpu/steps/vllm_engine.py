"""vLLM in this process: weights in place, sleep and wake, adapters."""

import gc
from pathlib import Path
from typing import Any

import torch

from tests.gpu.models import SIZES, Size, make_model, make_tokenizer
from tests.gpu.naive import logprob_errors
from tests.gpu.setting import Figures, Setting
from tests.gpu.tasks import make_prompts
from tests.gpu.timing import device_name, timed
from training_core.llm.generation.base import SamplingSettings
from training_core.llm.generation.engine_config import Vllm
from training_core.llm.generation.vllm_engine import VllmEngine
from training_core.llm.models.adapter_config import Lora
from training_core.llm.models.loading import load_model
from training_core.llm.models.lora import add_adapter, trained_weights
from training_core.types import Answer, Prompt

SMALL = Size(128, 2, 4, 2, 256, 200)
CHANGE = 1.02


def check_weights(setting: Setting) -> Figures:
    """New weights written in place: the mean distance of logprobs before and after, the time, and tokens per second."""
    model, engine, prompts, settings = _engine(setting, None)
    answers: list[Any] = []
    seconds = timed(lambda: answers.extend(engine.generate(prompts, settings)), setting.device)
    figures: Figures = {
        "card": device_name(setting.device),
        "tokens_per_second": sum(len(answer.token_ids) for group in answers for answer in group) / seconds,
        "mean_logprob_error_before": _distance(model, prompts, answers),
    }
    setting.note(figures)
    with torch.no_grad():
        for weight in model.parameters():
            weight.mul_(CHANGE)
    figures["publication_seconds"] = timed(
        lambda: engine.load_weights(trained_weights(model), 1), setting.device
    )
    answers = engine.generate(prompts, settings)
    figures["versions"] = sorted(
        {version for group in answers for answer in group for version in answer.versions}
    )
    figures["mean_logprob_error"] = max(
        figures["mean_logprob_error_before"], _distance(model, prompts, answers)
    )
    return figures


def check_sleep(setting: Setting) -> Figures:
    """Memory that sleep releases, the same greedy answers after waking, and new weights after that: a colocated policy's update."""
    model, engine, prompts, _ = _engine(setting, None, sleeps=True)
    greedy = SamplingSettings(max_tokens=setting.pick(32, 4), greedy=True)

    def tokens() -> list[list[int]]:
        return [answer.token_ids for group in engine.generate(prompts, greedy) for answer in group]

    before, free = tokens(), _free_bytes(setting)
    figures: Figures = {"card": device_name(setting.device)}
    figures["sleep_seconds"] = timed(engine.sleep, setting.device)
    figures["released_bytes"] = _free_bytes(setting) - free
    setting.note(figures)
    figures["wake_seconds"] = timed(engine.wake_up, setting.device)
    figures["answers_after_waking_differ"] = int(tokens() != before)
    with torch.no_grad():
        for weight in model.parameters():
            weight.mul_(CHANGE)
    engine.load_weights(trained_weights(model), 1)
    answers = engine.generate(prompts, SamplingSettings(max_tokens=setting.pick(32, 4)))
    figures["mean_logprob_error"] = _distance(model, prompts, answers)
    return figures


def _free_bytes(setting: Setting) -> int:
    """Free memory of the card. On a CPU, where vLLM does not sleep, 0."""
    return torch.cuda.mem_get_info()[0] if setting.device.type == "cuda" else 0


def check_adapters(setting: Setting) -> Figures:
    """An adapter that is replaced while the engine runs: the mean distance of logprobs for every version, and the time."""
    model, engine, prompts, settings = _engine(setting, Lora(rank=8))
    figures: Figures = {"card": device_name(setting.device), "mean_logprob_error": 0.0, "swap_seconds": []}
    for version in range(1, 4):
        with torch.no_grad():
            for name, weight in model.named_parameters():
                if ".lora_B." in name:
                    weight.add_(torch.full_like(weight, 0.003 * version))
        seconds = timed(
            lambda number=version: engine.load_weights(trained_weights(model), number), setting.device
        )  # type: ignore[misc]
        figures["swap_seconds"].append(seconds)
        error = _distance(model, prompts, engine.generate(prompts, settings))
        figures["mean_logprob_error"] = max(figures["mean_logprob_error"], error)
        setting.note(figures)
    return figures


def _engine(
    setting: Setting, lora: Lora | None, *, sleeps: bool = False
) -> tuple[Any, VllmEngine, list[Prompt], SamplingSettings]:
    folder = _folder(setting)
    model = load_model(folder, "bf16", str(setting.device))
    if lora is not None:
        add_adapter(model, lora, 0)
    section = Vllm(
        max_batch=setting.pick(128, 8), context=setting.pick(1024, 64), eager=setting.small, gpu_memory=0.5
    )
    engine = VllmEngine(section, model, make_tokenizer(model.config.vocab_size), sleeps=sleeps)
    prompts = make_prompts(
        setting.pick(16, 2), setting.pick(8, 2), setting.pick(128, 6), model.config.vocab_size
    )
    return model, engine, prompts, SamplingSettings(max_tokens=setting.pick(128, 6))


def _folder(setting: Setting) -> Path:
    """A random model of 0.5B parameters with its tokenizer, written once."""
    folder = setting.folder / "vllm-model"
    if not (folder / "tokenizer.json").is_file():
        size = setting.pick(SIZES["0.5B"], SMALL)
        model = make_model("qwen2", size, setting.device, torch.bfloat16)
        model.save_pretrained(folder)
        make_tokenizer(size.vocabulary).save_pretrained(folder)
        del model
        gc.collect()
    return folder


def _distance(model: Any, prompts: list[Prompt], answers: list[list[Answer]]) -> float:
    return float(logprob_errors(model, prompts, answers).mean())
