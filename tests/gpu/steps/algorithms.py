"""Updates of every algorithm on the device against the same updates on the CPU."""

from copy import deepcopy

import torch

from tests.gpu.learners import largest_difference
from tests.gpu.models import TINY, make_model
from tests.gpu.setting import Figures, Setting
from tests.gpu.tasks import make_prompts, sampled_groups
from training_core.algorithms.config import ActorCritic
from training_core.algorithms.registry import ALGORITHM_CONFIGS, Algorithm
from training_core.config.models import Policy
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
    groups = sampled_groups(model, prompts, 8, temperature=0.9)
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
    return largest_difference(rows[1], rows[0], COMPARED)
