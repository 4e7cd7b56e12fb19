"""Learners by the `type` of their config: one line each. Only configs are imported here."""

from dataclasses import dataclass

from training_core.llm.learning.learner_config import Deepspeed, Learner, Optimisation


@dataclass(frozen=True)
class LearnerKind:
    """One type of learner."""

    config: type[Optimisation]
    learner: str
    """"module:Class" in this package: the Learner (`learner.py`) or a subclass."""


LEARNERS: dict[str, LearnerKind] = {
    "torch": LearnerKind(Learner, "learner:Learner"),
    "deepspeed": LearnerKind(Deepspeed, "deepspeed_learner:DeepspeedLearner"),
}
"""Learners by type, in the order of the pages."""
