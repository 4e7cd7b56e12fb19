"""Engine against learner after every publication of weights."""

import torch

from tests.gpu.learners import make_learner
from tests.gpu.models import TINY, Size, make_model, make_tokenizer
from tests.gpu.setting import Figures, Setting
from tests.gpu.tasks import make_groups, make_prompts
from training_core.llm.generation.base import SamplingSettings
from training_core.llm.generation.torch_engine import TorchEngine
from training_core.llm.models.adapter_config import Lora
from training_core.llm.models.lora import add_adapter

SIZE = Size(1024, 12, 16, 4, 2816, 32_000)
ITERATIONS = 5


def check_publication(setting: Setting) -> Figures:
    """The largest distance of the learner's logprobs from the engine's, over several updates and publications."""
    size = setting.pick(SIZE, TINY)
    figures: Figures = {"rows": []}
    for precision, dtype in (("fp32", torch.float32), ("bf16", torch.bfloat16)):
        for lora in (None, Lora(rank=8)):
            row = _probe(setting, size, precision, dtype, lora)
            figures["rows"].append({"precision": precision, "adapter": lora is not None} | row)
            setting.note(figures)
    exact = [row for row in figures["rows"] if row["precision"] == "fp32"]
    figures["largest_logprob_error"] = max(row["largest"] for row in exact)
    figures["smallest_change"] = min(row["change"] for row in exact)
    return figures


def _probe(setting: Setting, size: Size, precision: str, dtype: torch.dtype, lora: Lora | None) -> Figures:
    """One learner, and an engine with a separate copy of the model, which gets every version."""
    trained, served = (make_model("qwen2", size, setting.device, dtype, spread=2.0) for _ in range(2))
    learner = make_learner(trained, precision=precision, lora=lora, learning_rate=1e-3)
    if lora is not None:
        add_adapter(served, lora, 0)
    engine = TorchEngine(served, make_tokenizer(size.vocabulary))
    prompts = make_prompts(setting.pick(12, 3), setting.pick(8, 4), setting.pick(96, 10), size.vocabulary)
    settings = SamplingSettings(max_tokens=setting.pick(64, 8))
    distances, probabilities = [], []
    for version in range(ITERATIONS):
        answers = engine.generate(prompts, settings)
        groups = make_groups(prompts, answers)
        metrics = learner.update(groups, version + 1, version, set()).metrics
        distances.append(metrics["mismatch_max"])
        probabilities.append(answers[0][0].logprobs[0])
        engine.load_weights(learner.weights(), version + 1)
    change = max(abs(value - probabilities[0]) for value in probabilities)
    return {"largest": max(distances), "by_version": distances, "change": change}
