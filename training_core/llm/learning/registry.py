"""Learners by the `type` of a policy's learner section."""

from collections.abc import Callable
from typing import Any

from transformers import PreTrainedModel

from training_core.config.algorithms import Algorithm
from training_core.config.models import Policy
from training_core.llm.learning.learner import Learner
from training_core.llm.learning.processes import SINGLE_PROCESS, Processes


def _deepspeed(*parts: Any) -> Learner:
    from training_core.llm.learning.deepspeed_learner import DeepspeedLearner

    return DeepspeedLearner(*parts)


LEARNERS: dict[str, Callable[[Policy, Algorithm, PreTrainedModel, int, int, Processes, int], Learner]] = {
    "torch": Learner,
    "deepspeed": _deepspeed,
}
"""type -> (policy, algorithm, model, iterations of the run, staleness, processes, seed) -> learner."""


def make_learner(
    policy: Policy,
    algorithm: Algorithm,
    model: PreTrainedModel,
    iterations: int,
    staleness: int = 0,
    processes: Processes = SINGLE_PROCESS,
    seed: int = 0,
) -> Learner:
    """The learner for a policy's config. `seed` is that of the run and the policy."""
    return LEARNERS[policy.learner.type](policy, algorithm, model, iterations, staleness, processes, seed)
