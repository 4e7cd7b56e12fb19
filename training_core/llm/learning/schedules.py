"""Learning rates over a run's iterations."""

import math

from training_core.llm.learning.learner_config import Optimisation


def learning_rate(learner: Optimisation, iteration: int, iterations: int) -> float:
    """The learning rate of an iteration (from 1): linear warm-up, then constant, linear or cosine to the final rate."""
    if iteration <= learner.warmup_iterations:
        return learner.learning_rate * iteration / (learner.warmup_iterations + 1)
    if learner.schedule == "constant":
        return learner.learning_rate
    span = max(iterations - learner.warmup_iterations - 1, 1)
    done = min((iteration - learner.warmup_iterations - 1) / span, 1.0)
    left = 1.0 - done if learner.schedule == "linear" else 0.5 * (1.0 + math.cos(math.pi * done))
    return learner.final_learning_rate + (learner.learning_rate - learner.final_learning_rate) * left
