"""Train-inference mismatch: the distance of the learner's logprobs from those that the engine stored on sampling.

Measured with the weights that sampled, before an update's first optimiser step, over sampled response tokens only
(without prompts). Both sides then compute the same function, so any difference comes from precision, kernels,
templates, truncation or missing weight updates. d = learner's logprob - engine's logprob of a token:

    mean = mean |d|        max = max |d|        kl = mean (exp(d) - 1 - d)

The last is the k3 estimator of KL(engine || learner): Schulman, "Approximating KL divergence", 2020, samples being the
engine's; it is never negative.
"""

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass
class Mismatch:
    """Running sums over tokens, in nats."""

    distance: float = 0.0
    largest: float = 0.0
    divergence: float = 0.0
    tokens: int = 0

    def add(self, learner: Tensor, engine: Tensor) -> None:
        """Add the logprobs (T,) of the same tokens by both."""
        if not len(learner):
            return
        gap = learner.double() - engine.double()
        self.distance += float(gap.abs().sum())
        self.largest = max(self.largest, float(gap.abs().max()))
        self.divergence += float((torch.expm1(gap) - gap).sum())
        self.tokens += len(gap)

    def metrics(self) -> dict[str, float]:
        """Metrics by name; empty before any token was compared."""
        if not self.tokens:
            return {}
        return {
            "mismatch_mean": self.distance / self.tokens,
            "mismatch_max": self.largest,
            "mismatch_kl": self.divergence / self.tokens,
        }
