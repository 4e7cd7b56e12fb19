"""Updates of every algorithm on the device against the same updates on the CPU."""

from copy import deepcopy

import torch

from tests.gpu.models import TINY, make_model, make_tokenizer
from tests.gpu.setting import Figures, Setting
from tests.gpu.tasks import make_groups, make_prompts
from training_core.algorithms.config import ActorCritic
from training_core.algorithms.registry import ALGORITHM_CONFIGS, Algorithm
from training_core.config.models import Policy
from training_core.llm.generation.base import SamplingSettings
from training_core.llm.generation.torch_engine import TorchEngine
from training_core.llm.learning.learner import Learner
from training_core.llm.learning.learner_config import Learner as LearnerSettings
from training_core.types import Group

COMPARED = ("loss", "entropy", "clip_fraction", "ratio_mean", "grad_norm", "kl", "value_loss", "mismatch_max")
SETTINGS = LearnerSettings(learning_rate=1e-3, schedule="constant", minibatches=2, epochs=2)
KL_PLACES = ("loss", "reward")


def check_algorithms(setting: Setting) -> Figures:
    """Two updates with each algorithm, with a KL penalty in the loss and in the reward: the largest difference of a metric."""
    model = make_model("qwen2", TINY, torch.device("cpu"), spread=3.0)
    prompts = make_prompts(4, 4, 12, TINY.vocabulary)
    answers = TorchEngine(model, make_tokenizer(TINY.vocabulary)).generate(
        prompts, SamplingSettings(max_tokens=8, temperature=0.9)
    )
    groups = make_groups(prompts, answers, temperature=0.9)
    figures: Figures = {"rows": [], "largest_metric_error": 0.0}
    for kind, section in ALGORITHM_CONFIGS.items():
        if kind == "custom":
            continue
        for place in KL_PLACES[: 1 if issubclass(section, ActorCritic) else 2]:
            algorithm = section.model_validate({"kl_coefficient": 0.02, "kl_in": place})
            error = _error(setting, model, algorithm, groups)
            figures["rows"].append({"algorithm": kind, "kl_in": place, "largest_error": error})
            figures["largest_metric_error"] = max(figures["largest_metric_error"], error)
            setting.note(figures)
    return figures


def _error(setting: Setting, model: torch.nn.Module, algorithm: Algorithm, groups: list[Group]) -> float:
    rows = []
    for device in ("cpu", setting.device):
        learner = Learner(Policy(learner=SETTINGS), algorithm, deepcopy(model).to(device), 10)
        rows.append([learner.update(groups, iteration, 0, set()).metrics for iteration in (1, 2)])
    return max(
        abs(row[name] - expected[name]) / max(abs(expected[name]), 1.0)
        for expected, row in zip(*rows, strict=True)
        for name in COMPARED
        if name in expected
    )
