"""The torch learner: policy-gradient updates of one policy on grouped answers.

G groups, T response tokens of a micro-batch, V vocabulary.
"""

import copy
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor
from transformers import PreTrainedModel

from training_core.algorithms.losses import clipped_policy_loss, kl_penalty, token_entropies, token_weights
from training_core.config.algorithms import Algorithm
from training_core.config.models import Policy
from training_core.errors import StalePolicy
from training_core.llm.generation.sampling import tempered_log_probs
from training_core.llm.learning.packing import Batch, Row, collate, group_rows, micro_batches
from training_core.llm.learning.schedules import learning_rate
from training_core.llm.learning.token_logprobs import can_pack, response_logits
from training_core.seeding import keyed_uniform
from training_core.types import Group


@dataclass
class GroupAnnotation:
    """What the update saw of one group, per answer and token, before its first step."""

    ratios: list[list[float]]
    """pi / pi_old."""
    entropies: list[list[float]]
    """Nats."""
    training_logprobs: list[list[float]]


@dataclass
class UpdateResult:
    """Figures of one update."""

    metrics: dict[str, float]
    annotations: dict[tuple[str, int], GroupAnnotation]
    """By (episode, place of the turn in it)."""


@dataclass
class _Piece:
    """A micro-batch: rows that were sampled alike, as tensors, with per-token facts (T,)."""

    rows: list[Row]
    batch: Batch
    group: Group
    """Any group of it: all share temperature and truncation."""
    old_logprobs: Tensor
    advantages: Tensor
    weights: Tensor


@dataclass
class _Sums:
    """Running sums over tokens of an update."""

    loss: float = 0.0
    kl: float = 0.0
    entropy: float = 0.0
    clipped: float = 0.0
    ratio_max: float = 0.0
    grad_norm: float = 0.0
    steps: int = 0
    skipped: int = 0
    tokens: int = 0
    annotations: dict[tuple[str, int], GroupAnnotation] = field(default_factory=dict)


class Learner:
    """Holds the model under training, its optimiser and, where a KL penalty is wanted, the frozen base model."""

    def __init__(self, policy: Policy, algorithm: Algorithm, model: PreTrainedModel, iterations: int) -> None:
        self.settings = policy.learner
        self.algorithm = algorithm
        self.model = model
        self.iterations = iterations
        self.reference = copy.deepcopy(model).eval().requires_grad_(False) if algorithm.kl_coefficient > 0 else None
        self.packed = self.settings.packing and can_pack(model)
        self.optimizer = torch.optim.AdamW(
            model.parameters(),
            lr=self.settings.learning_rate,
            betas=self.settings.betas,
            weight_decay=self.settings.weight_decay,
        )

    def weights(self) -> dict[str, Tensor]:
        """The weights by name, detached; tied ones once per name."""
        return {name: tensor.detach() for name, tensor in self.model.state_dict().items()}

    def update(self, groups: Sequence[Group], iteration: int, version: int) -> UpdateResult:
        """Optimiser steps on one iteration's groups (iterations count from 1).

        A minibatch whose gradient is not finite is skipped and counted, so that one bad batch cannot spoil the weights.
        Raises StalePolicy, naming both versions, where a token was sampled by another version.
        """
        check_fresh(groups, version)
        rate = learning_rate(self.settings, iteration, self.iterations)
        for section in self.optimizer.param_groups:
            section["lr"] = rate
        sums = _Sums()
        self.model.eval()  # dropout off: ratios of fresh data are 1
        for epoch in range(self.settings.epochs):
            for part in self._minibatches(groups, iteration, epoch):
                self._step(part, groups, sums, annotate=epoch == 0)
        return UpdateResult(self._metrics(sums, rate, len(groups)), sums.annotations)

    def _minibatches(self, groups: Sequence[Group], iteration: int, epoch: int) -> Iterator[list[int]]:
        """Group indices, shuffled by key where there are several minibatches."""
        order = list(range(len(groups)))
        parts = min(self.settings.minibatches, len(order))
        if parts > 1:
            order.sort(key=lambda index: keyed_uniform(iteration, epoch, index))
        for part in range(parts):
            yield order[part::parts]

    def _step(self, part: list[int], groups: Sequence[Group], sums: _Sums, *, annotate: bool) -> None:
        for piece in self._pieces(part, groups):
            loss = self._loss(piece, groups, sums, annotate=annotate)
            loss.backward()
        limit = self.settings.max_grad_norm or float("inf")
        norm = float(torch.nn.utils.clip_grad_norm_(self.model.parameters(), limit))
        if norm == norm and norm != float("inf"):
            self.optimizer.step()
            sums.steps += 1
            sums.grad_norm += norm
        else:
            sums.skipped += 1
        self.optimizer.zero_grad(set_to_none=True)

    def _pieces(self, part: list[int], groups: Sequence[Group]) -> Iterator[_Piece]:
        """Micro-batches of a minibatch; token weights sum to 1 over all of them."""
        alike: dict[tuple[float, int, float], list[int]] = {}
        for index in part:
            group = groups[index]
            alike.setdefault((group.temperature, group.top_k, group.top_p), []).append(index)
        lengths = [len(answer.token_ids) for index in part for answer in groups[index].answers]
        per_token = self.algorithm.loss_average == "token"
        scale = 1.0 / sum(lengths) if per_token else 1.0 / len(lengths)
        for members in alike.values():
            rows = [row for index in members for row in group_rows(index, groups[index], packed=self.packed)]
            for some in micro_batches(rows, self.settings.micro_batch_tokens):
                yield self._piece(some, groups, scale)

    def _piece(self, rows: list[Row], groups: Sequence[Group], scale: float) -> _Piece:
        device = self.model.device
        pad = int(getattr(self.model.config, "pad_token_id", None) or 0)
        batch = collate(rows, pad, packed=self.packed, device=device, dtype=self.model.dtype)
        answers = [(groups[row.group], answer) for row in rows for answer in row.answers]
        lengths = torch.tensor([len(group.answers[answer].token_ids) for group, answer in answers])
        weights = token_weights(lengths, self.algorithm.loss_average)
        factor = scale * (int(lengths.sum()) if self.algorithm.loss_average == "token" else len(lengths))
        advantages = torch.tensor([group.advantages[answer] for group, answer in answers], dtype=torch.float32)
        old = [logprob for group, answer in answers for logprob in group.answers[answer].logprobs]
        return _Piece(
            rows,
            batch,
            groups[rows[0].group],
            torch.tensor(old, dtype=torch.float32, device=device),
            advantages.repeat_interleave(lengths).to(device),
            (weights * factor).to(device),
        )

    def _log_probs(self, model: PreTrainedModel, piece: _Piece) -> Tensor:
        """(T, V) under the temperature and truncation that the tokens were sampled with."""
        logits = response_logits(model, piece.batch)
        return tempered_log_probs(logits, piece.group.temperature, piece.group.top_k, piece.group.top_p)

    def _loss(self, piece: _Piece, groups: Sequence[Group], sums: _Sums, *, annotate: bool) -> Tensor:
        algorithm = self.algorithm
        log_probs = self._log_probs(self.model, piece)
        chosen = piece.batch.targets.unsqueeze(-1)
        logprobs = log_probs.gather(-1, chosen).squeeze(-1)
        with torch.set_grad_enabled(algorithm.entropy_coefficient > 0):
            entropies = token_entropies(log_probs)
        losses, clipped = clipped_policy_loss(
            logprobs, piece.old_logprobs, piece.advantages, algorithm.clip_low, algorithm.clip_high, algorithm.dual_clip
        )
        total = losses - algorithm.entropy_coefficient * entropies
        if self.reference is not None:
            with torch.no_grad():
                base = self._log_probs(self.reference, piece).gather(-1, chosen).squeeze(-1)
            kl = kl_penalty(logprobs, base, algorithm.kl_estimator)
            total = total + algorithm.kl_coefficient * kl
            sums.kl += float(kl_penalty(logprobs.detach(), base, "k3").sum())
        loss = (total * piece.weights).sum()
        ratios = (logprobs.detach() - piece.old_logprobs).exp()
        sums.loss += float(loss.detach())
        sums.entropy += float(entropies.detach().sum())
        sums.clipped += float(clipped.sum())
        sums.ratio_max = max(sums.ratio_max, float(ratios.max()))
        sums.tokens += len(logprobs)
        if annotate:
            _annotate(sums.annotations, piece, groups, (ratios, entropies.detach(), logprobs.detach()))
        return loss

    def _metrics(self, sums: _Sums, rate: float, groups: int) -> dict[str, float]:
        tokens, batches = max(sums.tokens, 1), max(sums.steps + sums.skipped, 1)
        metrics = {
            "loss": sums.loss / batches,
            "entropy": sums.entropy / tokens,
            "clip_fraction": sums.clipped / tokens,
            "ratio_max": sums.ratio_max,
            "grad_norm": sums.grad_norm / max(sums.steps, 1),
            "lr": rate,
            "skipped_steps": float(sums.skipped),
            "trained_groups": float(groups),
        }
        if not groups:
            return {name: metrics[name] for name in ("lr", "trained_groups")}
        return metrics | ({"kl": sums.kl / tokens} if self.reference is not None else {})


def check_fresh(groups: Sequence[Group], version: int) -> None:
    """Raises StalePolicy where a token was sampled by another version than `version`."""
    for group in groups:
        for answer in group.answers:
            other = next((found for found in answer.versions if found != version), None)
            if other is not None:
                raise StalePolicy(
                    f"episode {group.episode}, turn {group.turn}: sampled by version {other}, but the policy is at "
                    f"version {version}; on-policy training refuses it (rollout.stale = \"drop\" leaves such data out)"
                )


def _annotate(
    annotations: dict[tuple[str, int], GroupAnnotation],
    piece: _Piece,
    groups: Sequence[Group],
    figures: tuple[Tensor, Tensor, Tensor],
) -> None:
    ratios, entropies, logprobs = (tensor.float().tolist() for tensor in figures)
    begin = 0
    for row in piece.rows:
        group = groups[row.group]
        found = annotations.setdefault((group.episode, group.turn), _empty(len(group.answers)))
        for answer in row.answers:
            end = begin + len(group.answers[answer].token_ids)
            found.ratios[answer] = ratios[begin:end]
            found.entropies[answer] = entropies[begin:end]
            found.training_logprobs[answer] = logprobs[begin:end]
            begin = end


def _empty(answers: int) -> GroupAnnotation:
    return GroupAnnotation([[] for _ in range(answers)], [[] for _ in range(answers)], [[] for _ in range(answers)])
