"""What an update reports: metrics from sums over its tokens, and data per group for transcripts.

Train-inference mismatch: the distance of the learner's logprobs from those that the engine stored on sampling.

Measured with the weights that sampled, before an update's first optimiser step, over sampled response tokens only
(without prompts). Both sides then compute the same function, so any difference comes from precision, kernels,
templates, truncation or missing weight updates. d = learner's logprob - engine's logprob of a token:

    mean = mean |d|        max = max |d|        kl = mean (exp(d) - 1 - d)

The last is the k3 estimator of KL(engine || learner): Schulman, "Approximating KL divergence", 2020, samples being the
engine's; it is never negative.

Numbers remain on the device until `read`: reading one waits for all work before it, and a GPU whose host waits has no
next kernel to run.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import nan
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from training_core.llm.learning.optimiser import Processes
from training_core.llm.learning.packing import MicroBatch
from training_core.types import Group

NUMBERS = 1024
"""Maximum numbers that are read of a tensor for the change of the weights, evenly spaced."""


@dataclass(frozen=True)
class TokenLosses:
    """An algorithm's loss per token (T,) of a micro-batch, before averaging."""

    losses: Tensor
    clipped: Tensor
    ratios: Tensor
    """Ratio of the policy to that at the start of the update, or to the sampler if the former is not needed; no gradient."""
    weights: Tensor | None
    """Correction weights for another sampler, if used."""


@dataclass
class GroupAnnotation:
    """Data of an update for one group, per answer and token; NaN for tokens that are not trained on."""

    ratios: list[list[float]]
    """pi / pi_old at the group's first forward pass in the update."""
    entropies: list[list[float]]
    """Entropies in nats at the same pass."""
    training_logprobs: list[list[float]]
    """The learner's logprobs before the update's first step, with the weights that sampled the tokens."""
    masks: list[list[int]]
    """1 for tokens in the loss, else 0."""


Annotations = dict[tuple[str, int], GroupAnnotation]
"""By (episode, index of the turn in it)."""

_SUMS = (
    "loss", "kl", "entropy", "clipped", "ratio", "tokens", "computed", "corrected", "left_out", "value",
    "distance", "divergence", "compared",
)  # fmt: skip
_LARGEST = ("ratio", "distance")


@dataclass
class UpdateSums:
    """Sums of one update in one process; `all_reduce` makes them those of all processes."""

    episodes: set[str] | None = None
    """Episodes with annotations; None: all."""
    engine_version: int | None = None
    """The version that has the learner's weights at the start of the update; only its tokens are compared. None: all."""
    annotations: Annotations = field(default_factory=dict)
    sums: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))
    """By _SUMS: sums over tokens, in nats, and numbers of tokens."""
    largest: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))
    """By _LARGEST."""
    grad_norm: float = 0.0
    steps: int = 0
    """Optimiser steps that were applied."""
    skipped: int = 0
    overflowed: int = 0
    flops: float = 0.0
    explained_variance: float | None = None
    _numbers: list[tuple[str, bool, Tensor]] = field(default_factory=list)
    """Not yet read: the name, whether the largest is recorded (not the sum), and a number (,)."""
    _figures: list[tuple[MicroBatch, dict[str, Tensor]]] = field(default_factory=list)
    """Not yet read: a micro-batch's figures (T,) by the field of GroupAnnotation."""
    _comparisons: list[tuple[MicroBatch, Tensor, bool]] = field(default_factory=list)
    """Not yet compared: a micro-batch, the learner's logprobs (T,), and whether only annotated episodes are compared."""

    @property
    def tried(self) -> int:
        """Number of optimiser steps, applied or not."""
        return self.steps + self.skipped + self.overflowed

    def add(self, name: str, value: Tensor | float, values: Tensor | None = None) -> None:
        """Add to a sum; `values` are those of which the largest is recorded. Tensors have no gradient."""
        if isinstance(value, Tensor):
            self._numbers.append((name, False, value))
        else:
            self.sums[name] += value
        if values is not None and len(values):
            self._numbers.append((name, True, values.max()))

    def add_losses(self, loss: Tensor, losses: TokenLosses, entropies: Tensor, piece: MicroBatch) -> None:
        """Add a micro-batch's values."""
        ratios, weights = losses.ratios, losses.weights
        self.add("loss", loss.detach())
        self.add("entropy", entropies.detach().sum())
        self.add("clipped", losses.clipped.sum())
        self.add("ratio", ratios.sum(), ratios)
        self.add("tokens", len(ratios))
        self.add("computed", piece.batch.token_ids.numel())
        if weights is not None:
            self.add("corrected", weights.sum())
            self.add("left_out", (weights == 0).sum())

    def compare(self, learner: Tensor, engine: Tensor) -> None:
        """Add the mismatch of the logprobs (T,) of the same tokens by both."""
        gap = learner.double() - engine.double()
        self.add("distance", gap.abs().sum(), gap.abs())
        self.add("divergence", (torch.expm1(gap) - gap).sum())
        self.add("compared", len(gap))

    def shows(self, group: Group) -> bool:
        """Whether the group's episode has annotations."""
        return self.episodes is None or group.episode in self.episodes

    def record_mismatch(
        self, piece: MicroBatch, logprobs: Tensor | None, *, annotated_only: bool = False
    ) -> None:
        """Compare and annotate the learner's logprobs (T,) before any step; `annotated_only`: of annotated episodes."""
        if piece.idle or logprobs is None:
            return
        self.annotate(piece, training_logprobs=logprobs)
        self._comparisons.append((piece, logprobs, annotated_only and self.episodes is not None))

    def annotate(self, piece: MicroBatch, **figures: Tensor) -> None:
        """Add a micro-batch's figures (field of GroupAnnotation: (T,)) for the annotated episodes."""
        if self.episodes is None or self.episodes:
            self._figures.append((piece, figures))

    def read(self) -> None:
        """Wait for the device, and add everything that has been recorded since the last call."""
        comparisons, self._comparisons = self._comparisons, []
        for piece, logprobs, annotated_only in comparisons:
            self._compare_piece(piece, logprobs, annotated_only)
        numbers, self._numbers = self._numbers, []
        for (name, largest, _), (value,) in zip(numbers, _lists([part for *_, part in numbers]), strict=True):
            if largest:
                self.largest[name] = max(self.largest[name], float(value))
            else:
                self.sums[name] += float(value)
        figures, self._figures = self._figures, []
        shown = [
            (piece, those) for piece, those in figures if any(self.shows(group) for group, _ in piece.answers)
        ]
        values = iter(_lists([tensor for _, those in shown for tensor in those.values()]))
        for piece, those in shown:
            self._annotate_piece(piece, {name: next(values) for name in those})

    def _compare_piece(self, piece: MicroBatch, logprobs: Tensor, annotated_only: bool) -> None:
        engine = piece.behaviour_logprobs
        answers = [(group, group.answers[index]) for group, index in piece.answers]
        versions = np.concatenate([answer.learnt(answer.versions) for _, answer in answers])
        selected = (versions == self.engine_version) | (self.engine_version is None)
        if annotated_only:
            lengths = [answer.trained_tokens for _, answer in answers]
            selected &= np.repeat([self.shows(group) for group, _ in answers], lengths)
        if not selected.all():
            places = torch.from_numpy(np.flatnonzero(selected)).to(engine.device)
            logprobs, engine = logprobs[places], engine[places]
        if len(engine):
            self.compare(logprobs, engine)

    def _annotate_piece(self, piece: MicroBatch, figures: dict[str, list[float]]) -> None:
        end = 0
        for group, index in piece.answers:
            answer = group.answers[index]
            begin, end = end, end + answer.trained_tokens
            if not self.shows(group):
                continue
            if (group.episode, group.turn) not in self.annotations:
                self.annotations[group.episode, group.turn] = _empty(group)
            annotation = self.annotations[group.episode, group.turn]
            annotation.masks[index] = answer.spread([1] * (end - begin), 0)
            for name, tokens in figures.items():
                getattr(annotation, name)[index] = answer.spread(tokens[begin:end], nan)

    def all_reduce(self, processes: Processes, device: torch.device) -> None:
        """Add the other processes' sums: steps and norms are the same in all, annotations and FLOPs stay per process."""
        self.read()
        if processes.size == 1:
            return
        for names, values, largest in ((_SUMS, self.sums, False), (_LARGEST, self.largest, True)):
            own = torch.tensor([values[name] for name in names], dtype=torch.float64, device=device)
            total = processes.all_reduce(own, "max" if largest else "sum")
            values.update(zip(names, total.tolist(), strict=True))

    def metrics(
        self, epochs: int, *, corrects: bool, has_reference: bool, has_critic: bool
    ) -> dict[str, float]:
        """Metrics by name."""
        self.read()
        sums, tokens = self.sums, max(self.sums["tokens"], 1)
        metrics = {
            "loss": sums["loss"] / max(self.tried, 1),
            "entropy": sums["entropy"] / tokens,
            "clip_fraction": sums["clipped"] / tokens,
            "ratio_mean": sums["ratio"] / tokens,
            "ratio_max": self.largest["ratio"],
            "grad_norm": self.grad_norm / max(self.steps, 1),
            "skipped_steps": float(self.skipped),
            "tokens": sums["tokens"] / epochs,
            "computed_tokens": sums["computed"] / epochs,
        }
        metrics |= self.mismatch()
        if corrects:
            metrics["correction_weight"] = sums["corrected"] / tokens
            metrics["correction_left_out"] = sums["left_out"] / tokens
        if has_critic:
            metrics["value_loss"] = sums["value"] / tokens
        if self.explained_variance is not None:
            metrics["explained_variance"] = self.explained_variance
        return metrics | ({"kl": sums["kl"] / tokens} if has_reference else {})

    def mismatch(self) -> dict[str, float]:
        """Metrics of the mismatch by name; empty before any token was compared."""
        self.read()
        compared = self.sums["compared"]
        if not compared:
            return {}
        return {
            "mismatch_mean": self.sums["distance"] / compared,
            "mismatch_max": self.largest["distance"],
            "mismatch_kl": self.sums["divergence"] / compared,
        }


def _lists(tensors: Sequence[Tensor]) -> list[list[Any]]:
    """The numbers of tensors on one device, each as a list; read once for each number format."""
    lists: list[list[Any]] = [[] for _ in tensors]
    for kind in dict.fromkeys(tensor.dtype for tensor in tensors):
        chosen = [number for number, tensor in enumerate(tensors) if tensor.dtype == kind]
        values, begin = torch.cat([tensors[number].reshape(-1) for number in chosen]).tolist(), 0
        for number in chosen:
            end = begin + tensors[number].numel()
            lists[number], begin = values[begin:end], end
    return lists


def _empty(group: Group) -> GroupAnnotation:
    """No data: no answer is in the loss until a micro-batch contains it."""
    return GroupAnnotation(
        ratios=[[] for _ in group.answers],
        entropies=[[] for _ in group.answers],
        training_logprobs=[[] for _ in group.answers],
        masks=[[0] * len(answer.token_ids) for answer in group.answers],
    )


@torch.no_grad()
def sampled_weights(model: nn.Module) -> Tensor:
    """Copies (N,) in fp32 of some numbers of each trained tensor of a model; those that this process holds.

    The weights are those that engines get, so that a change that their precision loses does not count.
    """
    parts = [
        weight.detach().flatten()[:: max(weight.numel() // NUMBERS, 1)][:NUMBERS].float()
        for weight in model.parameters()
        if weight.requires_grad and weight.numel()
    ]
    return torch.cat(parts) if parts else torch.empty(0)


def weight_change(before: Tensor, after: Tensor) -> dict[str, float]:
    """`weight_change`: the norm (L2) of the difference of two samples, as a share of the first one's; nothing without numbers."""
    norm = float(torch.linalg.vector_norm(before)) if before.shape == after.shape else 0.0
    return {"weight_change": float(torch.linalg.vector_norm(after - before)) / norm} if norm else {}
