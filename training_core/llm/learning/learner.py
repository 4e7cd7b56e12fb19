"""The torch learner: policy-gradient updates of one policy on grouped answers.

T trained response tokens of a micro-batch, U distinct positions that predict them, V vocabulary size.

Non-finite numbers: data (advantages, sampled logprobs) is refused with an error that names the episode, because the
cause is outside the learner. A gradient is skipped and counted (`skipped_steps`), so that one bad batch neither
damages the weights nor ends a long run; several in a row raise LearnerFailure, because the run makes no progress.

In a training pass the model is in evaluation mode: dropout of the base model stays off, so ratios of fresh data are 1.
Activation checkpointing of blocks (Chen et al., arXiv 1604.06174) and an adapter's dropout are enabled individually.
"""

import copy
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import ClassVar

import torch
from torch import Tensor
from transformers import PreTrainedModel

from training_core.algorithms.config import ActorCritic
from training_core.algorithms.hooks import AlgorithmHooks, checked_loss
from training_core.algorithms.losses import (
    Bounds,
    Tokens,
    correction_weights,
    kl_penalty,
)
from training_core.algorithms.registry import Algorithm, make_hooks
from training_core.errors import LearnerFailure
from training_core.importing import resolve
from training_core.llm.generation.grammars import Grammars, model_grammars
from training_core.llm.learning.advantages import (
    Critic,
    compute_advantages,
    has_kl_reward,
    needs_initial_pass,
)
from training_core.llm.learning.learner_config import Learner as TorchSettings
from training_core.llm.learning.learner_config import Optimisation, TrainedPolicy
from training_core.llm.learning.optimiser import SINGLE_PROCESS, Optimiser, Processes, learning_rate
from training_core.llm.learning.packing import (
    MicroBatch,
    MicroBatchOptions,
    make_micro_batches,
    minibatches,
    own_share,
)
from training_core.llm.learning.registry import LEARNERS
from training_core.llm.learning.role_gradients import RoleGradients
from training_core.llm.learning.token_logprobs import (
    ResponseForward,
    TokenScores,
    fill_missing_logprobs,
)
from training_core.llm.learning.update_metrics import (
    Annotations,
    TokenLosses,
    UpdateSums,
    sampled_weights,
    weight_change,
)
from training_core.llm.models.evaluation import recompute_activations, training_passes, use_evaluation_mode
from training_core.llm.models.flops import TRAINING, shape_of
from training_core.llm.models.fused_kernels import compile_for_updates
from training_core.llm.models.loading import load_tokenizer
from training_core.llm.models.lora import (
    has_adapter,
    load_trained_weights,
    trained_weights,
    without_adapter,
)
from training_core.llm.models.packed_attention import compilations
from training_core.seeding import keyed_seed, keyed_uniform
from training_core.types import Group
from training_core.versions import check_ages

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

    compiles: ClassVar[bool] = True
    """Whether the layers of a model on a GPU may be compiled (models/fused_kernels.py)."""

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
        self._updated_version: int | None = None
        """Version of the latest update: until the next publication its tokens are of older weights than the learner's."""
        self.algorithm = algorithm
        self.hooks = make_hooks(algorithm)
        self.model = model
        self.iterations = iterations
        if self.compiles:
            compile_for_updates(model)
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
        self.offloads = self.settings.offload == "on" and model.device.type == "cuda"
        """Whether the optimiser's states are in host memory between updates."""
        if self.offloads:
            self.optimiser.rest()
        self._has_entropy_bonus = algorithm.entropy_coefficient > 0
        self._has_dropout = policy.adapter.type == "lora" and policy.adapter.dropout > 0
        self._consecutive_skips = 0
        self._grammars: Grammars | None = None
        self._compiled = 0
        """Kernels that the process had compiled at the end of the last update."""

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
        if self.offloads:
            self.optimiser.rest()
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
        if self.offloads:
            self.optimiser.wake()
        torch.manual_seed(keyed_seed(self.seed, iteration, self.processes.rank))  # for an adapter's dropout
        rate = learning_rate(self.settings, iteration, self.iterations)
        self.optimiser.prepare(rate)
        before = sampled_weights(self.model)
        use_evaluation_mode(self.model)  # dropout off: ratios of fresh data are 1
        fresh = -1 if version == self._updated_version else version  # -1: no token is of these weights
        self._updated_version = version
        sums = UpdateSums(None if annotated is None else set(annotated), fresh)
        parts = minibatches(groups, self.settings.minibatches, iteration)
        shares = [own_share(part, groups, self.processes.rank, self.processes.size) for part in parts]
        batches = [self._micro_batches(groups, *both) for both in zip(parts, shares, strict=True)]
        roles = self._role_gradients(groups, parts, shares, iteration)
        if roles:
            batches[_order(len(batches), iteration, 0)[0]] = roles.pieces
        self._compute_old_logprobs(groups, shares, batches, iteration, sums)
        pieces = [piece for batch in batches for piece in batch]
        sums.explained_variance = compute_advantages(
            pieces, groups, self.hooks, self.critic, self.processes, self.model.device
        )
        for epoch in range(self.settings.epochs):
            for number in _order(len(batches), iteration, epoch):
                with training_passes(self.model):
                    for done, piece in enumerate(batches[number], start=1):
                        loss = self._loss(piece, sums, first=epoch == 0)
                        self.optimiser.backward(loss, last=done == len(batches[number]))
                        if roles and sums.tried == 0:
                            roles.read(done, self.model, self.optimiser.scale)
                self._step(sums)
        if self.offloads:
            self.optimiser.rest()
        sums.all_reduce(self.processes, self.model.device)
        flops = sums.flops if self.shape else None
        metrics = self._metrics(sums, rate, len(groups)) | weight_change(before, sampled_weights(self.model))
        if roles:
            metrics |= roles.metrics()
        return UpdateResult(metrics, sums.annotations, flops)

    def _role_gradients(
        self,
        groups: Sequence[Group],
        parts: Sequence[Sequence[int]],
        shares: Sequence[Sequence[int]],
        iteration: int,
    ) -> RoleGradients | None:
        """Readers of the first minibatch's gradients by role, if they are measured in this iteration."""
        settings = self.settings
        every = settings.role_gradients if isinstance(settings, TorchSettings) else 0
        if not every or iteration % every or not parts:
            return None
        first = _order(len(parts), iteration, 0)[0]
        return RoleGradients(
            groups, shares[first], lambda own: self._micro_batches(groups, parts[first], own) if own else []
        )

    @torch.no_grad()
    def _compute_old_logprobs(
        self,
        groups: Sequence[Group],
        shares: Sequence[Sequence[int]],
        batches: Sequence[Sequence[MicroBatch]],
        iteration: int,
        sums: UpdateSums,
    ) -> None:
        """Record logprobs, KL costs and values of the policy before the first step, if the algorithm needs them, and compare
        its logprobs with the engine's: those of annotated groups that come after the first step, while the weights are
        still those that sampled them. The first minibatch is compared in its own pass, unless dropout would affect it.
        """
        algorithm = self.algorithm
        later = _order(len(batches), iteration, 0)[0 if self._has_dropout else 1 :]
        if needs_initial_pass(algorithm):
            scored = [piece for batch in batches for piece in batch]
            compared = [piece for number in later for piece in batches[number]]
            sums.flops += sum(piece.flops for piece in scored)
        else:
            annotated = [index for number in later for index in shares[number] if sums.shows(groups[index])]
            scored = compared = self._micro_batches(groups, annotated)
        for piece in scored:
            scores, piece.old_values = self._scores_and_values(piece)
            piece.proximal_logprobs = scores.logprobs
            if has_kl_reward(algorithm):
                base = self._base_logprobs(piece, sums)
                piece.costs = algorithm.kl_coefficient * kl_penalty(
                    scores.untruncated, base, algorithm.kl_estimator
                )
        for piece in compared:
            sums.record_mismatch(piece, piece.proximal_logprobs, annotated_only=True)

    def _loss(self, piece: MicroBatch, sums: UpdateSums, *, first: bool) -> Tensor:
        """The micro-batch's part of the minibatch's loss; its metrics are added to `sums`. `first`: in the first epoch."""
        algorithm = self.algorithm
        scores, values = self._scores_and_values(piece)
        if piece.idle:
            return scores.logprobs.sum() * 0.0
        sums.flops += TRAINING * piece.flops
        result = _policy_losses(piece, scores.logprobs, self.hooks)
        losses = result.losses - algorithm.entropy_coefficient * scores.entropies
        if self.reference is not None:
            base = self._base_logprobs(piece, sums)
            if algorithm.kl_in == "loss":
                penalty = kl_penalty(scores.untruncated, base, algorithm.kl_estimator)
                losses = losses + algorithm.kl_coefficient * penalty
            sums.add("kl", kl_penalty(scores.untruncated.detach(), base, "k3").sum())
        if self.critic and values is not None:
            errors = self.critic.losses(piece, values)
            losses = losses + self.critic.algorithm.value_coefficient * errors
            sums.add("value", errors.detach().sum())
        loss = (losses * piece.weights).sum()
        sums.add_losses(loss, result, scores.entropies, piece)
        if first:
            sums.annotate(piece, ratios=result.ratios, entropies=scores.entropies.detach())
        if sums.tried == 0 and not self._has_dropout:
            sums.record_mismatch(piece, scores.logprobs.detach())
        return loss

    def _step(self, sums: UpdateSums) -> None:
        """Apply a minibatch's gradients. Raises LearnerFailure after too many steps without a finite gradient."""
        scale = self.optimiser.scale
        result = self.optimiser.step()
        if self.critic:
            self.critic.step(apply=result.norm is not None, scale=scale)
        if result.norm is not None:
            sums.steps += 1
            sums.grad_norm += result.norm
            self._consecutive_skips = 0
        elif result.overflow:
            sums.overflowed += 1
        else:
            sums.skipped += 1
            self._consecutive_skips += 1
            if self._consecutive_skips >= MAX_CONSECUTIVE_SKIPS:
                raise LearnerFailure(
                    f"{self._consecutive_skips} consecutive optimiser steps had a gradient that is not finite",
                    remedy="resume from an earlier checkpoint with a lower learner.learning_rate or learner.max_grad_norm",
                )

    def _scores(self, piece: MicroBatch) -> TokenScores:
        """The response tokens' scores by the current policy."""
        return self.forward.scores(self.model, piece, entropy_gradient=self._has_entropy_bonus)

    def _scores_and_values(self, piece: MicroBatch) -> tuple[TokenScores, Tensor | None]:
        """The same, and values (T,) if there is a critic."""
        if self.critic is None:
            return self._scores(piece), None
        scores, hidden = self.forward.scores_and_hidden(
            self.model, piece, entropy_gradient=self._has_entropy_bonus
        )
        return scores, self.critic.values(hidden, piece)

    def _base_logprobs(self, piece: MicroBatch, sums: UpdateSums) -> Tensor:
        """Logprobs (T,) of the base model, cached after the first pass."""
        assert self.reference is not None
        if piece.reference_logprobs is None:
            sums.flops += piece.flops
            with torch.no_grad():
                piece.reference_logprobs = self.forward.scores(self.reference, piece).untruncated
        return piece.reference_logprobs

    def fill_missing_logprobs(self, groups: Sequence[Group], version: int) -> list[Group]:
        """Give answers without logprobs those of the current policy, at `version`; see token_logprobs."""
        use_evaluation_mode(self.model)
        return fill_missing_logprobs(groups, version, self._answer_logprobs)

    def _answer_logprobs(self, groups: Sequence[Group]) -> Iterator[tuple[MicroBatch, Tensor]]:
        """Logprobs (T,) of all answers by the current policy."""
        for piece in make_micro_batches(range(len(groups)), groups, self._micro_batch_options()):
            yield piece, self._scores(piece).logprobs

    def _make_optimiser(self, settings: Optimisation) -> Optimiser:
        return Optimiser(self.model, settings, self.processes)

    def _micro_batches(
        self, groups: Sequence[Group], part: Sequence[int], share: Sequence[int] | None = None
    ) -> list[MicroBatch]:
        """The micro-batches of this process's share of a minibatch (all of it by default)."""
        return list(make_micro_batches(part, groups, self._micro_batch_options(), share))

    def _micro_batch_options(self) -> MicroBatchOptions:
        forward, pad = self.forward, int(getattr(self.model.config, "pad_token_id", None) or 0)
        return MicroBatchOptions(
            self.settings,
            self.algorithm,
            self.packed,
            pad,
            self.model.device,
            forward.blocks,
            forward.linear,
            self.shape,
            self._make_grammars,
        )

    def _make_grammars(self) -> Grammars:
        """The grammars of the model's own tokenizer, made once."""
        if self._grammars is None:
            self._grammars = model_grammars(self.model, load_tokenizer(str(self.model.name_or_path)))
        return self._grammars

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
        if self.forward.blocks:
            compiled, self._compiled = compilations() - self._compiled, compilations()
            metrics["compilations"] = float(compiled)
        if self.settings.precision == "fp16":
            metrics |= {"loss_scale": self.optimiser.scale, "overflowed_steps": float(sums.overflowed)}
        return metrics


def make_learner(
    policy: TrainedPolicy,
    algorithm: Algorithm,
    model: PreTrainedModel,
    iterations: int,
    staleness: int = 0,
    processes: Processes = SINGLE_PROCESS,
    seed: int = 0,
) -> Learner:
    """The learner of the type in a policy's config. `seed` is that of the run and the policy."""
    make = resolve(f"{__name__.rpartition('.')[0]}.{LEARNERS[policy.learner.type].learner}")
    learner: Learner = make(policy, algorithm, model, iterations, staleness, processes, seed)
    return learner


def _policy_losses(piece: MicroBatch, logprobs: Tensor, hooks: AlgorithmHooks) -> TokenLosses:
    """The policy loss of each token from its logprobs (T,) under the current policy. Raises ConfigError if custom code
    returns a wrong shape.
    """
    algorithm = hooks.algorithm
    corrected = algorithm.correction != "none"
    start = (
        piece.proximal_logprobs
        if corrected and piece.proximal_logprobs is not None
        else piece.behaviour_logprobs
    )
    result = hooks.policy_loss(
        Tokens(logprobs, start, piece.advantages, piece.lengths),
        Bounds(algorithm.clip_low, algorithm.clip_high, algorithm.dual_clip),
    )
    losses, clipped = checked_loss(result, len(logprobs), hooks)
    ratios = (logprobs.detach() - start).exp()
    if not corrected:
        return TokenLosses(losses, clipped, ratios, None)
    weights = correction_weights(
        start,
        piece.behaviour_logprobs,
        algorithm.correction,
        algorithm.correction_floor,
        algorithm.correction_cap,
    )
    return TokenLosses(losses * weights, clipped, ratios, weights)


def _base_of(model: PreTrainedModel) -> PreTrainedModel:
    """The model before training: with an adapter the same tensors, otherwise a copy."""
    base = without_adapter(model) if has_adapter(model) else copy.deepcopy(model)
    base.eval().requires_grad_(False)
    return base


def _order(parts: int, iteration: int, epoch: int) -> list[int]:
    """Minibatches in the order of an epoch."""
    return sorted(range(parts), key=lambda index: keyed_uniform(iteration, epoch, index))
