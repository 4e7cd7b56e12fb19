"""The torch learner: policy-gradient updates of one policy on grouped answers.

T trained response tokens of a micro-batch, U distinct positions that predict them, V vocabulary size.

Non-finite numbers: data (advantages, sampled logprobs) is refused with an error that names the episode, because the
cause is outside the learner. A gradient is skipped and counted (`skipped_steps`), so that one bad batch neither
damages the weights nor ends a long run; several in a row raise LearnerFailure, because the run makes no progress.

In a training pass the model is in evaluation mode: dropout of the base model stays off, so ratios of fresh data are 1.
Activation checkpointing of blocks (Chen et al., arXiv 1604.06174) and an adapter's dropout are enabled individually.
"""

import copy
import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel
from transformers.modeling_layers import GradientCheckpointingLayer

from training_core.algorithms.config import ActorCritic
from training_core.algorithms.losses import kl_penalty, token_entropies
from training_core.algorithms.registry import Algorithm, make_hooks
from training_core.errors import LearnerFailure
from training_core.llm.generation.sampling import tempered_log_probs
from training_core.llm.learning.annotations import Annotations, annotate
from training_core.llm.learning.critic import Critic
from training_core.llm.learning.kl_penalty import apply_kl_penalty, changes_rewards, has_kl_reward
from training_core.llm.learning.learner_config import Optimisation, TrainedPolicy
from training_core.llm.learning.micro_batches import MicroBatch, MicroBatchOptions, make_micro_batches
from training_core.llm.learning.missing_logprobs import fill_missing_logprobs
from training_core.llm.learning.objective import kl_costs, needs_initial_pass, token_losses
from training_core.llm.learning.optimisation import Optimiser
from training_core.llm.learning.packing import conversations
from training_core.llm.learning.processes import SINGLE_PROCESS, Processes
from training_core.llm.learning.token_logprobs import ResponseForward, RowBatch
from training_core.llm.learning.update_sums import UpdateSums
from training_core.llm.models.adapters import (
    has_adapter,
    load_trained_weights,
    trained_weights,
    without_adapter,
)
from training_core.llm.models.evaluation import use_evaluation_mode
from training_core.llm.models.flops import TRAINING, shape_of
from training_core.seeding import keyed_seed, keyed_uniform
from training_core.types import Group
from training_core.versions import check_ages


def is_untruncated(piece: MicroBatch) -> bool:
    return piece.top_k == 0 and piece.top_p >= 1.0


def sampling_log_probs(logits: Tensor, piece: MicroBatch) -> Tensor:
    """Log-probabilities (U, V) with the temperature and truncation of sampling; sampled tokens are never truncated."""
    keep = None
    if not is_untruncated(piece):
        keep = torch.zeros_like(logits, dtype=torch.bool)
        keep[piece.batch.node_indices, piece.batch.targets] = True
    return tempered_log_probs(logits, piece.temperature, piece.top_k, piece.top_p, keep)


def untruncated_logprobs(logits: Tensor, piece: MicroBatch) -> Tensor:
    """The response tokens' logprobs (T,) after temperature only. Two policies are compared by these, because one may
    truncate a token that the other does not.
    """
    return tempered_log_probs(logits, piece.temperature)[piece.batch.node_indices, piece.batch.targets]


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


def recompute_activations(model: PreTrainedModel) -> None:
    """Store only the inputs of each block of the model. Raises LearnerFailure if the model does not support it."""
    try:
        model.gradient_checkpointing_enable({"use_reentrant": False})
    except ValueError as error:
        raise LearnerFailure(
            f"{type(model).__name__} cannot recompute activations; set learner.activation_checkpointing = false"
        ) from error


@contextmanager
def training_passes(model: nn.Module) -> Iterator[None]:
    """Context in which passes use activation checkpointing and dropout, if the model is configured for them."""
    blocks = [part for part in model.modules() if isinstance(part, GradientCheckpointingLayer)]
    drops = [drop for part in model.modules() for drop in getattr(part, "lora_dropout", {}).values()]
    for part in (*blocks, *drops):
        part.training = True  # only this module: `train` would also affect its submodules
    try:
        yield
    finally:
        for part in (*blocks, *drops):
            part.training = False


MAX_CONSECUTIVE_SKIPS = 10
"""Consecutive optimiser steps without a finite gradient after which an update fails."""


@dataclass
class UpdateResult:
    """Metrics of one update."""

    metrics: dict[str, float]
    annotations: Annotations
    """By (episode, index of the turn in it)."""
    flops: float | None = None
    """Model FLOPs of its forward and backward passes; None for an architecture with unknown FLOPs."""


@dataclass
class LearnerState:
    """The complete state to resume a learner bit for bit: tensors for safetensors, the rest for JSON."""

    weights: dict[str, Tensor]
    """As `Learner.weights`."""
    optimiser: dict[str, Tensor]
    """As `Optimiser.state_dict`."""
    counters: dict[str, int]
    critic: dict[str, Tensor] = field(default_factory=dict)
    """As `Critic.state_dict`; empty if there is none."""


class Learner:
    """Holds the model under training, its optimiser and, for a KL penalty, the frozen base model.

    The base model is the model as passed here: construct the learner before loading a checkpoint into it.
    """

    def __init__(
        self,
        policy: TrainedPolicy,
        algorithm: Algorithm,
        model: PreTrainedModel,
        iterations: int,
        staleness: int = 0,
        processes: Processes = SINGLE_PROCESS,
        seed: int = 0,
    ) -> None:
        self.settings = policy.learner
        self.seed = seed
        self.staleness = staleness
        self.algorithm = algorithm
        self.hooks = make_hooks(algorithm)
        self.model = model
        self.iterations = iterations
        self.reference = _base_of(model) if algorithm.kl_coefficient > 0 else None
        self.forward = ResponseForward(model, policy.learner.packed_attention)
        self.shape = shape_of(model.config)
        self.packed = self.settings.packing and self.forward.packs
        self.processes = processes
        self.optimiser = self._make_optimiser(policy.learner)
        self.critic: Critic | None = None
        if isinstance(algorithm, ActorCritic):
            self.critic = Critic(model, algorithm, policy.learner, processes)
        if self.settings.activation_checkpointing:
            recompute_activations(model)
        self._has_dropout = policy.adapter.type == "lora" and policy.adapter.dropout > 0
        self._consecutive_skips = 0

    @property
    def optimizer(self) -> torch.optim.Optimizer:
        """The torch optimiser inside `optimiser`."""
        return self.optimiser.adamw

    def weights(self) -> dict[str, Tensor]:
        """The weights by name, detached; tied ones once per name. With an adapter, only its weights."""
        return trained_weights(self.model)

    def load_weights(self, weights: Mapping[str, Tensor]) -> None:
        """Load `weights` of another learner. Raises RuntimeError if names or shapes differ."""
        load_trained_weights(self.model, weights)

    @contextmanager
    def gathered(self) -> Iterator[None]:
        """Context in which this process has all weights; always true without partitioning."""
        yield

    def state_dict(self) -> LearnerState:
        """The state that a checkpoint stores. The learning rate follows from the iteration."""
        return LearnerState(
            self.weights(),
            self.optimiser.state_dict(),
            {"skipped_in_a_row": self._consecutive_skips} | self.optimiser.counters(),
            self.critic.state_dict() if self.critic else {},
        )

    def load_state_dict(self, state: LearnerState) -> None:
        """Resume from a `state_dict`. Raises RuntimeError, KeyError or ValueError if it does not fit."""
        self.load_weights(state.weights)
        self.optimiser.load_state_dict(state.optimiser)
        self._consecutive_skips = state.counters["skipped_in_a_row"]
        self.optimiser.load_counters(state.counters)
        if self.critic and state.critic:  # another algorithm's checkpoint has none: it keeps its first state
            self.critic.load_state_dict(state.critic)

    def update(
        self, groups: Sequence[Group], iteration: int, version: int, annotated: Collection[str] | None = None
    ) -> UpdateResult:
        """Optimiser steps on one iteration's groups (iterations count from 1).

        Annotations are created for the episodes in `annotated` (None: for all). Raises StalePolicy with both versions
        if a token was sampled by a version that is too old or newer; LearnerFailure (see the module docstring).
        """
        check_ages(groups, version, self.staleness)
        torch.manual_seed(keyed_seed(self.seed, iteration, self.processes.rank))  # for an adapter's dropout
        rate = learning_rate(self.settings, iteration, self.iterations)
        self.optimiser.prepare(rate)
        use_evaluation_mode(self.model)  # dropout off: ratios of fresh data are 1
        sums = UpdateSums()
        episodes = set(annotated) if annotated is not None else None
        minibatches = list(self._minibatches(groups, iteration))
        own_shares = [self.processes.share(part, groups) for part in minibatches]
        later = _order(len(minibatches), iteration, 0)[0 if self._has_dropout else 1 :]
        if not needs_initial_pass(self.algorithm):
            self._measure_mismatch(
                [index for number in later for index in own_shares[number]], groups, sums, episodes
            )
        parts = [
            self._pad_to_peers(
                list(make_micro_batches(part, groups, self._micro_batch_options(), share)), groups
            )
            for part, share in zip(minibatches, own_shares, strict=True)
        ]
        if needs_initial_pass(self.algorithm):
            self._compute_proximal_logprobs([piece for part in parts for piece in part], sums)
            for piece in (piece for number in later for piece in parts[number]):
                _record_mismatch(sums, piece, piece.proximal_logprobs, episodes, all_episodes=False)
        if changes_rewards(self.algorithm):
            pieces = [piece for part in parts for piece in part]
            apply_kl_penalty(pieces, groups, self.hooks, self.processes, self.model.device)
        for epoch in range(self.settings.epochs):
            for number in _order(len(parts), iteration, epoch):
                self._step(parts[number], sums, epoch == 0, episodes)
        sums.all_reduce(self.processes, self.model.device)
        flops = sums.flops if self.shape else None
        return UpdateResult(self._metrics(sums, rate, len(groups)), sums.annotations, flops)

    def fill_missing_logprobs(self, groups: Sequence[Group], version: int) -> list[Group]:
        """Give answers without logprobs those of the current policy, at `version`; see missing_logprobs."""
        use_evaluation_mode(self.model)
        return fill_missing_logprobs(groups, version, self._score)

    def _score(self, groups: Sequence[Group]) -> Iterator[tuple[MicroBatch, Tensor]]:
        """Logprobs (T,) of all answers by the current policy."""
        for piece in make_micro_batches(range(len(groups)), groups, self._micro_batch_options()):
            log_probs = sampling_log_probs(self._logits(piece.batch), piece)
            yield piece, log_probs[piece.batch.node_indices, piece.batch.targets]

    def _make_optimiser(self, settings: Optimisation) -> Optimiser:
        return Optimiser(self.model, settings, self.processes)

    def _logits(self, batch: RowBatch) -> Tensor:
        """Logits (U, V) of the current policy."""
        return self.forward.logits(self.model, batch)

    def _logits_and_values(self, piece: MicroBatch) -> tuple[Tensor, Tensor | None]:
        """Logits (U, V), and values (T,) if there is a critic, of the current policy."""
        if self.critic is None:
            return self._logits(piece.batch), None
        logits, hidden = self.forward.with_hidden(self.model, piece.batch)
        return logits, self.critic.values(hidden, piece)

    def _pad_to_peers(self, pieces: list[MicroBatch], groups: Sequence[Group]) -> list[MicroBatch]:
        """Pad to as many micro-batches as the other processes have, if passes are collective."""
        return pieces

    def _micro_batch_options(self) -> MicroBatchOptions:
        forward, pad = self.forward, int(getattr(self.model.config, "pad_token_id", None) or 0)
        return MicroBatchOptions(
            self.settings, self.algorithm, self.packed, pad, self.model.device, forward.blocks, forward.linear
        )

    def _minibatches(self, groups: Sequence[Group], iteration: int) -> Iterator[list[int]]:
        """Group indices of each minibatch, assigned by key, with a conversation's groups together; the same in every epoch."""
        members = conversations(groups, range(len(groups)))
        parts = min(self.settings.minibatches, len(members))
        if parts > 1:
            members.sort(key=lambda indices: keyed_uniform(iteration, indices[0]))
        for part in range(parts):
            yield [index for indices in members[part::parts] for index in indices]

    @torch.no_grad()
    def _measure_mismatch(
        self, later: Sequence[int], groups: Sequence[Group], sums: UpdateSums, episodes: set[str] | None
    ) -> None:
        """Compare engine and learner on groups to be annotated that come after the first step (`later`), while the
        weights are still those that sampled them; the first minibatch is compared in its own pass, unless dropout
        would affect it.
        """
        indices = [index for index in later if episodes is None or groups[index].episode in episodes]
        for piece in (
            self._pad_to_peers(list(make_micro_batches(indices, groups, self._micro_batch_options())), groups)
            if groups
            else ()
        ):
            log_probs = sampling_log_probs(self._logits(piece.batch), piece)
            _record_mismatch(sums, piece, log_probs[piece.batch.node_indices, piece.batch.targets], episodes)

    def _step(
        self, part: Sequence[MicroBatch], sums: UpdateSums, first: bool, episodes: set[str] | None
    ) -> None:
        with training_passes(self.model):
            for number, piece in enumerate(part, start=1):
                sums.flops += self._flops(piece)
                loss = self._loss(piece, sums, first, episodes)
                self.optimiser.backward(loss, last=number == len(part))
        scale = self.optimiser.scale
        result = self.optimiser.step()
        if self.critic:
            self.critic.step(apply=result.norm is not None, scale=scale)
        if result.norm is not None:
            sums.steps += 1
            sums.grad_norm += result.norm
            self._consecutive_skips = 0
            return
        if result.overflow:
            sums.overflowed += 1
            return
        sums.skipped += 1
        self._consecutive_skips += 1
        if self._consecutive_skips >= MAX_CONSECUTIVE_SKIPS:
            raise LearnerFailure(
                f"{self._consecutive_skips} consecutive optimiser steps had a gradient that is not finite; resume "
                "from an earlier checkpoint with a lower learner.learning_rate or learner.max_grad_norm"
            )

    def _flops(self, piece: MicroBatch) -> float:
        """FLOPs of the micro-batch's passes; the base model's logprobs are computed only in the first epoch."""
        if self.shape is None or piece.idle:
            return 0.0
        reference = self.reference is not None and piece.reference_logprobs is None
        return (TRAINING + reference) * self.shape.forward(piece.work)

    def _loss(self, piece: MicroBatch, sums: UpdateSums, first: bool, episodes: set[str] | None) -> Tensor:
        """The micro-batch's part of the minibatch's loss; its metrics are added to `sums`."""
        algorithm = self.algorithm
        logits, values = self._logits_and_values(piece)
        if piece.idle:
            return logits.sum() * 0.0
        log_probs = sampling_log_probs(logits, piece)
        logprobs = log_probs[piece.batch.node_indices, piece.batch.targets]
        with torch.set_grad_enabled(algorithm.entropy_coefficient > 0):
            entropies = token_entropies(log_probs)[piece.batch.node_indices]
        result = token_losses(piece, logprobs, self.hooks)
        total = result.losses - algorithm.entropy_coefficient * entropies
        if self.reference is not None:
            policy_logprobs = logprobs if is_untruncated(piece) else untruncated_logprobs(logits, piece)
            base = self._reference_logprobs(self.reference, piece)
            if algorithm.kl_in == "loss":
                total = total + algorithm.kl_coefficient * kl_penalty(
                    policy_logprobs, base, algorithm.kl_estimator
                )
            sums.kl += float(kl_penalty(policy_logprobs.detach(), base, "k3").sum())
        if self.critic and values is not None:
            errors = self.critic.losses(piece, values)
            total = total + self.critic.algorithm.value_coefficient * errors
            sums.value += float(errors.detach().sum())
        loss = (total * piece.weights).sum()
        sums.add(loss, result, entropies, piece)
        if first:
            figures = {"ratios": result.ratios, "entropies": entropies.detach()}
            annotate(sums.annotations, piece, figures, episodes)
        if sums.tried == 0 and not self._has_dropout:
            _record_mismatch(sums, piece, logprobs.detach(), episodes)
        return loss

    @torch.no_grad()
    def _compute_proximal_logprobs(self, pieces: Sequence[MicroBatch], sums: UpdateSums) -> None:
        """Record logprobs, KL costs and values of the policy before the first step."""
        for piece in pieces:
            if self.shape is not None:
                sums.flops += (1 + has_kl_reward(self.algorithm)) * self.shape.forward(piece.work)
            logits, values = self._logits_and_values(piece)
            piece.proximal_logprobs = sampling_log_probs(logits, piece)[
                piece.batch.node_indices, piece.batch.targets
            ]
            if has_kl_reward(self.algorithm) and self.reference is not None:
                policy_logprobs = (
                    piece.proximal_logprobs if is_untruncated(piece) else untruncated_logprobs(logits, piece)
                )
                piece.costs = kl_costs(
                    policy_logprobs, self._reference_logprobs(self.reference, piece), self.algorithm
                )
            if self.critic and values is not None:
                self.critic.compute_advantages(piece, values, piece.costs)
        if self.critic:
            sums.explained_variance = self.critic.normalise_advantages(pieces, self.model.device)

    @torch.no_grad()
    def _reference_logprobs(self, reference: PreTrainedModel, piece: MicroBatch) -> Tensor:
        """Logprobs (T,) of the base model."""
        if piece.reference_logprobs is None:
            piece.reference_logprobs = untruncated_logprobs(
                self.forward.logits(reference, piece.batch), piece
            )
        return piece.reference_logprobs

    def _metrics(self, sums: UpdateSums, rate: float, groups: int) -> dict[str, float]:
        if not groups:
            return {"lr": rate, "trained_groups": 0.0}
        metrics = sums.metrics(
            self.settings.epochs,
            corrects=self.algorithm.correction != "none",
            has_reference=self.reference is not None,
            has_critic=self.critic is not None,
        )
        metrics |= {"lr": rate, "trained_groups": float(groups)}
        if self.settings.precision == "fp16":
            metrics |= {"loss_scale": self.optimiser.scale, "overflowed_steps": float(sums.overflowed)}
        return metrics


def _base_of(model: PreTrainedModel) -> PreTrainedModel:
    """The model before training: with an adapter the same tensors, otherwise a copy."""
    base = without_adapter(model) if has_adapter(model) else copy.deepcopy(model)
    base.eval().requires_grad_(False)
    return base


def _order(parts: int, iteration: int, epoch: int) -> list[int]:
    """Minibatches in the order of an epoch."""
    return sorted(range(parts), key=lambda index: keyed_uniform(iteration, epoch, index))


def _record_mismatch(
    sums: UpdateSums,
    piece: MicroBatch,
    logprobs: Tensor | None,
    episodes: set[str] | None,
    *,
    all_episodes: bool = True,
) -> None:
    """Record the distance of the learner's logprobs (T,), before any step, from the engine's; with `others`, of all episodes."""
    if piece.idle or logprobs is None:
        return
    old = piece.behaviour_logprobs
    if episodes is not None and not all_episodes:
        selected = torch.tensor([group.episode in episodes for group, _ in piece.answers], device=old.device)
        mask = selected.repeat_interleave(piece.lengths, output_size=len(old))
        sums.mismatch.add(logprobs[mask], old[mask])
    else:
        sums.mismatch.add(logprobs, old)
    annotate(sums.annotations, piece, {"training_logprobs": logprobs}, episodes)
