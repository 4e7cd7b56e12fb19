"""Running sums over an update's tokens, and the metrics computed from them.

Train-inference mismatch: the distance of the learner's logprobs from those that the engine stored on sampling.

Measured with the weights that sampled, before an update's first optimiser step, over sampled response tokens only
(without prompts). Both sides then compute the same function, so any difference comes from precision, kernels,
templates, truncation or missing weight updates. d = learner's logprob - engine's logprob of a token:

    mean = mean |d|        max = max |d|        kl = mean (exp(d) - 1 - d)

The last is the k3 estimator of KL(engine || learner): Schulman, "Approximating KL divergence", 2020, samples being the
engine's; it is never negative.
"""

from dataclasses import dataclass, field

import torch
from torch import Tensor

from training_core.llm.learning.annotations import Annotations
from training_core.llm.learning.micro_batches import MicroBatch
from training_core.llm.learning.objective import TokenLosses
from training_core.llm.learning.processes import Processes


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


_SUMMED_FIELDS = (
    "loss",
    "kl",
    "entropy",
    "clipped",
    "ratio",
    "tokens",
    "computed",
    "corrected",
    "left_out",
    "value",
)
_MISMATCH_FIELDS = ("distance", "divergence", "tokens")
"""Keys of the mismatch."""


@dataclass
class UpdateSums:
    """Sums of one update in one process; `all_reduce` makes them those of all processes."""

    loss: float = 0.0
    kl: float = 0.0
    entropy: float = 0.0
    clipped: float = 0.0
    ratio: float = 0.0
    ratio_max: float = 0.0
    grad_norm: float = 0.0
    steps: int = 0
    skipped: int = 0
    overflowed: int = 0
    tokens: int = 0
    computed: int = 0
    flops: float = 0.0
    mismatch: Mismatch = field(default_factory=Mismatch)
    corrected: float = 0.0
    left_out: float = 0.0
    value: float = 0.0
    explained_variance: float | None = None
    annotations: Annotations = field(default_factory=dict)

    @property
    def tried(self) -> int:
        """Number of optimiser steps, applied or not."""
        return self.steps + self.skipped + self.overflowed

    def add(self, loss: Tensor, token_losses: TokenLosses, entropies: Tensor, piece: MicroBatch) -> None:
        """Add a micro-batch's values."""
        ratios = token_losses.ratios
        self.loss += float(loss.detach())
        self.entropy += float(entropies.detach().sum())
        self.clipped += float(token_losses.clipped.sum())
        self.ratio += float(ratios.sum())
        self.ratio_max = max(self.ratio_max, float(ratios.max())) if len(ratios) else self.ratio_max
        self.tokens += len(ratios)
        self.computed += piece.batch.token_ids.numel()
        if token_losses.weights is not None:
            self.corrected += float(token_losses.weights.sum())
            self.left_out += float((token_losses.weights == 0).sum())

    def all_reduce(self, processes: Processes, device: torch.device) -> None:
        """Add the other processes' sums: steps and norms are the same in all, annotations and FLOPs stay per process."""
        if processes.size == 1:
            return
        values = [getattr(self, name) for name in _SUMMED_FIELDS] + [
            getattr(self.mismatch, name) for name in _MISMATCH_FIELDS
        ]
        totals = processes.all_reduce(torch.tensor(values, dtype=torch.float64, device=device)).tolist()
        for name, value in zip(_SUMMED_FIELDS, totals, strict=False):
            setattr(self, name, value)
        for name, value in zip(_MISMATCH_FIELDS, totals[len(_SUMMED_FIELDS) :], strict=True):
            setattr(self.mismatch, name, value)
        largest = torch.tensor([self.ratio_max, self.mismatch.largest], dtype=torch.float64, device=device)
        self.ratio_max, self.mismatch.largest = processes.all_reduce(largest, "max").tolist()

    def metrics(
        self, epochs: int, *, corrects: bool, has_reference: bool, has_critic: bool
    ) -> dict[str, float]:
        """Metrics by name."""
        tokens, batches = max(self.tokens, 1), max(self.tried, 1)
        metrics = {
            "loss": self.loss / batches,
            "entropy": self.entropy / tokens,
            "clip_fraction": self.clipped / tokens,
            "ratio_mean": self.ratio / tokens,
            "ratio_max": self.ratio_max,
            "grad_norm": self.grad_norm / max(self.steps, 1),
            "skipped_steps": float(self.skipped),
            "tokens": self.tokens / epochs,
            "computed_tokens": self.computed / epochs,
        }
        metrics |= self.mismatch.metrics()
        if corrects:
            metrics |= {
                "correction_weight": self.corrected / tokens,
                "correction_left_out": self.left_out / tokens,
            }
        if has_critic:
            metrics["value_loss"] = self.value / tokens
        if self.explained_variance is not None:
            metrics["explained_variance"] = self.explained_variance
        return metrics | ({"kl": self.kl / tokens} if has_reference else {})
