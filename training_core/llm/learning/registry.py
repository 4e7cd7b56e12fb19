"""Learners by the `type` of a policy's learner section."""

from collections.abc import Callable

from transformers import PreTrainedModel

from training_core.config.algorithms import Algorithm
from training_core.config.models import Policy
from training_core.llm.learning.learner import Learner

LEARNERS: dict[str, Callable[[Policy, Algorithm, PreTrainedModel, int], Learner]] = {"torch": Learner}
"""type -> (policy, algorithm, model, iterations of the run) -> learner."""


def make_learner(policy: Policy, algorithm: Algorithm, model: PreTrainedModel, iterations: int) -> Learner:
    """The learner that a policy's config asks for."""
    return LEARNERS[policy.learner.type](policy, algorithm, model, iterations)
