"""DeepSpeed's ZeRO in one process against the torch learner."""

from copy import deepcopy

import torch

from tests.gpu.learners import ALGORITHM, largest_difference, make_learner
from tests.gpu.models import SIZES, TINY, make_model
from tests.gpu.setting import Figures, Setting
from tests.gpu.tasks import make_groups, make_prompts, random_answers
from tests.gpu.timing import device_name, peak_memory, reset_peak, timed
from training_core.config.models import Devices, Policy
from training_core.llm.learning.learner import Learner
from training_core.llm.learning.learner import make_learner as make_configured
from training_core.llm.learning.learner_config import Deepspeed

COMPARED = ("loss", "entropy", "grad_norm", "ratio_mean")
UPDATES = 3


def measure_zero(setting: Setting, stage: int) -> Figures:
    """Metrics of three updates against the torch learner's, and the time and memory of both."""
    size = setting.pick(SIZES["0.5B"], TINY)
    precision = setting.pick("bf16", "fp32")
    dtype = torch.bfloat16 if precision == "bf16" else torch.float32
    model = make_model("qwen2", size, setting.device, dtype)
    settings = {
        "learning_rate": 1e-5,
        "schedule": "constant",
        "precision": precision,
        "micro_batch_tokens": 8192,
    }
    devices = Devices(placement="apart")
    policy = Policy(learner=Deepspeed.model_validate({**settings, "zero_stage": stage}), devices=devices)
    torch_learner = make_learner(deepcopy(model), **settings)
    figures: Figures = {"card": device_name(setting.device), "zero_stage": stage, "parameters": _count(model)}
    expected, figures["torch"] = _updates(setting, torch_learner, size.vocabulary)
    del torch_learner
    actual, figures["deepspeed"] = _updates(
        setting, make_configured(policy, ALGORITHM, model, 100), size.vocabulary
    )
    figures["largest_metric_error"] = largest_difference(actual, expected, COMPARED)
    return figures


def _updates(setting: Setting, learner: Learner, vocabulary: int) -> tuple[list[dict[str, float]], Figures]:
    prompts = make_prompts(setting.pick(16, 3), setting.pick(8, 4), setting.pick(256, 12), vocabulary)
    groups = make_groups(prompts, random_answers(prompts, setting.pick(256, 6), vocabulary))
    reset_peak(setting.device)
    metrics: list[dict[str, float]] = []
    seconds = [
        timed(lambda: metrics.append(learner.update(groups, 1, 0, set()).metrics), setting.device)
        for _ in range(UPDATES)
    ]
    return metrics, {"seconds": min(seconds), "peak_bytes": peak_memory(setting.device)}


def _count(model: torch.nn.Module) -> int:
    return sum(weight.numel() for weight in model.parameters())
