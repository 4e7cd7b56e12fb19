"""Logprobs of response tokens by a model; logits are computed only at the places that predict them.

B rows, S padded length, T response tokens in all, U distinct places that predict them, V vocabulary, H hidden size.

The output layer is computed in chunks: no tensor has all places and the whole vocabulary, which is the largest size of a small model. The
fp32 logits of 8,192 places and a vocabulary of 152,000 have 5 GB, their softmax and its gradient twice as much again. A chunk's logits
are computed again in the backward pass, as activation checkpointing does for a block (Chen et al., arXiv 1604.06174).
"""

import inspect
import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint
from transformers import PreTrainedModel

from training_core.algorithms.losses import token_entropies
from training_core.llm.generation.sampling import tempered_log_probs
from training_core.llm.learning.memory import LOGITS_AT_ONCE
from training_core.llm.learning.packing import MicroBatch, RowBatch, collate, single_rows, tree_rows
from training_core.llm.models.decoder import decoder_of
from training_core.llm.models.packed_attention import (
    ATTENTION,
    TreeMask,
    attends_fully,
    tree_block_mask,
    tree_mask,
    tree_mask_by_blocks,
)
from training_core.types import NOT_SAMPLED, Answer, Group

log = logging.getLogger(__name__)
_TOLERANCE = {torch.float32: 1e-4, torch.bfloat16: 0.03, torch.float16: 0.005}
"""Tolerance of a trial's logits, relative to the largest of them."""
_MAX_RELATIVE_ERROR = 0.1
"""The same, relative to their error when responses see each other."""
_REFUSALS = (AttributeError, TypeError, ValueError, RuntimeError)
"""Exceptions of a model that does not support a trial's pass."""


def fill_missing_logprobs(
    groups: Sequence[Group],
    version: int,
    score: Callable[[Sequence[Group]], Iterable[tuple[MicroBatch, Tensor]]],
) -> list[Group]:
    """The same groups; answers without logprobs (external text with an unknown sampler) get those of the policy before the
    update's first step, by `score`, and its `version`. Known ones are unchanged.

    `score` yields the micro-batches of groups, each with the policy's logprobs (T,). Ratios then start at 1, so the first
    step is that of REINFORCE with the group's baseline; clipping has an effect from the second step on. A different
    sampler is not corrected for: that needs its logprobs.
    """
    filled = {
        index: list(group.answers)
        for index, group in enumerate(groups)
        if any(map(_lacks_logprobs, group.answers))
    }
    scored = [
        replace(groups[index], answers=list(map(_with_placeholders, answers)))
        for index, answers in filled.items()
    ]
    answers_of = {id(group): answers for group, answers in zip(scored, filled.values(), strict=True)}
    with torch.no_grad():
        for piece, logprobs in list(score(scored)):  # all passes, then all readings
            parts = logprobs.split(piece.lengths.tolist())
            for (group, number), part in zip(piece.answers, parts, strict=True):
                answers = answers_of[id(group)]
                answer = answers[number]
                if _lacks_logprobs(answer):
                    versions = answer.spread([version] * len(part), NOT_SAMPLED)
                    known = answer.spread(part.tolist(), 0.0)
                    answers[number] = replace(answer, logprobs=known, versions=versions)
    return [
        replace(group, answers=filled[index]) if index in filled else group
        for index, group in enumerate(groups)
    ]


def _lacks_logprobs(answer: Answer) -> bool:
    return bool(answer.token_ids) and not answer.logprobs


def _with_placeholders(answer: Answer) -> Answer:
    """The answer with a placeholder for every missing logprob."""
    return replace(answer, logprobs=[0.0] * len(answer.token_ids)) if _lacks_logprobs(answer) else answer


@dataclass(frozen=True)
class TokenScores:
    """What an update needs of the logits, for each response token (T,)."""

    logprobs: Tensor
    """With the temperature and truncation of sampling; sampled tokens are never truncated."""
    untruncated: Tensor
    """After temperature only. Two policies are compared by these, because one may truncate a token that the other does not."""
    entropies: Tensor
    """Of the distribution that predicts the token, without a gradient unless it is requested; empty in a pass without gradients."""


def score_tokens(
    head: Callable[[Tensor], Tensor],
    states: Tensor,
    piece: MicroBatch,
    vocabulary: int,
    *,
    entropy_gradient: bool = False,
) -> TokenScores:
    """The response tokens' scores from the states (U, H) at the places that predict them; `head` maps states to logits."""
    batch = piece.batch
    size = max(LOGITS_AT_ONCE.get(states.device.type, LOGITS_AT_ONCE["cpu"]) // vocabulary, 1)

    rows = piece.grammar.rows if piece.grammar else batch.targets  # read only with a grammar

    def score(states: Tensor, nodes: Tensor, targets: Tensor, rows: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        return _score(head(states), _Places(nodes, targets, rows), piece, entropy_gradient)

    if len(states) <= size:
        return TokenScores(*score(states, batch.node_indices, batch.targets, rows))
    starts = range(0, len(states), size)
    tokens = np.bincount(batch.node_numbers // size, minlength=len(starts)).tolist()  # counted on the host
    order = batch.node_indices.argsort(stable=True)
    parts = []
    for start, chosen in zip(starts, order.split(tokens), strict=True):
        tokens_here = batch.node_indices[chosen] - start, batch.targets[chosen], rows[chosen]
        arguments = states[start : start + size], *tokens_here
        parts.append(checkpoint(score, *arguments, use_reentrant=False, preserve_rng_state=False))
    places = order.argsort()
    columns = [torch.cat(column) for column in zip(*parts, strict=True)]
    return TokenScores(*(column[places] if len(column) else column for column in columns))


class _Places(NamedTuple):
    """Where N tokens are predicted."""

    nodes: Tensor
    """(N,) as indices into the logits."""
    targets: Tensor
    """(N,) the tokens."""
    rows: Tensor
    """(N,) rows of the grammar's mask, -1 without a grammar."""


def _score(
    logits: Tensor, places: _Places, piece: MicroBatch, entropy_gradient: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """Scores (N,) of N tokens, by logits (places, V)."""
    scores = _distribution_scores(logits, places.nodes, places.targets, piece, entropy_gradient)
    if piece.grammar is None:
        return scores
    chosen = (places.rows >= 0).nonzero().squeeze(-1)
    allowed = piece.grammar.allowed[places.rows[chosen]]
    own = logits[places.nodes[chosen]].masked_fill(~allowed, float("-inf"))
    nodes = torch.arange(len(chosen), device=chosen.device)
    masked = _distribution_scores(own, nodes, places.targets[chosen], piece, entropy_gradient)
    logprobs, untruncated, entropies = (
        whole.index_copy(0, chosen, part) if len(whole) else whole
        for whole, part in zip(scores, masked, strict=True)
    )
    return logprobs, untruncated, entropies


def _distribution_scores(
    logits: Tensor, nodes: Tensor, targets: Tensor, piece: MicroBatch, entropy_gradient: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """Scores (N,) of N tokens with these nodes, as indices into the logits (places, V)."""
    keep = None
    if piece.truncated:
        keep = torch.zeros_like(logits, dtype=torch.bool)
        keep[nodes, targets] = True
    log_probs = tempered_log_probs(logits, piece.temperature, piece.top_k, piece.top_p, keep)
    logprobs = untruncated = log_probs[nodes, targets]
    entropies = logprobs.new_empty(0)
    if torch.is_grad_enabled():
        with torch.set_grad_enabled(entropy_gradient):
            entropies = token_entropies(log_probs)[nodes]
    if piece.truncated:
        untruncated = tempered_log_probs(logits, piece.temperature)[nodes, targets]
    return logprobs, untruncated, entropies


class ResponseForward:
    """Computes a model's response logits. Its capabilities are determined by one trial each.

    `packs`: rows may hold several responses. `splits`: the output layer may be applied to selected places only.
    `blocks`: packed rows use FlexAttention; `on_cpu`: tree attention; `fused`: fused layers. `attention` is
    learner.packed_attention.
    """

    def __init__(self, model: PreTrainedModel, attention: str = "auto") -> None:
        self.model = model
        self._attention = attention
        self._takes_positions = "position_ids" in inspect.signature(model.forward).parameters

    def scores(
        self, model: PreTrainedModel, piece: MicroBatch, *, entropy_gradient: bool = False
    ) -> TokenScores:
        """What an update needs of the logits. `model` has this model's architecture."""
        scores, _ = self._score(model, piece, entropy_gradient, hidden=False)
        return scores

    def scores_and_hidden(
        self, model: PreTrainedModel, piece: MicroBatch, *, entropy_gradient: bool = False
    ) -> tuple[TokenScores, Tensor]:
        """The same, with the last hidden states (U, H)."""
        scores, states = self._score(model, piece, entropy_gradient, hidden=True)
        assert states is not None
        return scores, states

    def _score(
        self, model: PreTrainedModel, piece: MicroBatch, entropy_gradient: bool, *, hidden: bool
    ) -> tuple[TokenScores, Tensor | None]:
        batch, inputs = piece.batch, self._inputs(piece.batch, model.dtype)
        head, last = _head(model), None
        if self.splits:
            states = last = self._hidden(model, inputs, batch)
        else:  # the model does more than its output layer: all logits are computed at once
            whole = model(**inputs, output_hidden_states=hidden)
            head, states = nn.Identity(), batch.predicting(whole.logits)
            if hidden:
                last = batch.predicting(whole.hidden_states[-1])
        vocabulary = int(model.config.get_text_config().vocab_size)
        return score_tokens(head, states, piece, vocabulary, entropy_gradient=entropy_gradient), last

    def logits(self, model: PreTrainedModel, batch: RowBatch) -> Tensor:
        """Logits (U, V) at the places that predict a token, all at once."""
        return self._logits(model, batch, split=self.splits)

    def _logits(self, model: PreTrainedModel, batch: RowBatch, *, split: bool) -> Tensor:
        inputs = self._inputs(batch, model.dtype)
        if not split:
            return batch.predicting(model(**inputs).logits)
        logits: Tensor = _head(model)(self._hidden(model, inputs, batch))
        return logits

    def _hidden(self, model: PreTrainedModel, inputs: dict[str, Any], batch: RowBatch) -> Tensor:
        mask = inputs["attention_mask"]
        decoder = decoder_of(model) if isinstance(mask, TreeMask) and self.fused else None
        if decoder is not None:
            return decoder.trained_hidden(batch.token_ids, batch.positions, mask, batch.nodes)
        return batch.predicting(model.base_model(**inputs).last_hidden_state)

    def _inputs(self, batch: RowBatch, dtype: torch.dtype) -> dict[str, Any]:
        mask: Any
        if batch.packed and self.blocks:
            mask = tree_block_mask(batch.ends)
        elif batch.packed:
            mask = tree_mask_by_blocks(batch.ends) if self.on_cpu else tree_mask(batch.ends, dtype)
        else:
            order = torch.arange(batch.token_ids.shape[1], device=batch.lengths.device)
            mask = (order < batch.lengths.unsqueeze(1)).long()
        inputs: dict[str, Any] = {"input_ids": batch.token_ids, "attention_mask": mask, "use_cache": False}
        return inputs | ({"position_ids": batch.positions} if self._takes_positions else {})

    @property
    def linear(self) -> bool:
        """Whether the memory of packed rows' attention is linear in their length, not quadratic as that of an explicit mask."""
        return self.blocks or self.on_cpu

    @cached_property
    def on_cpu(self) -> bool:
        """Whether packed rows use tree attention: on the CPU, unless an explicit mask is configured."""
        return (
            self._attention != "mask"
            and self.model.device.type == "cpu"
            and self.model.config._attn_implementation == ATTENTION
        )

    @cached_property
    def fused(self) -> bool:
        """Whether packed rows use fused layers (models/decoder.py)."""
        if not self.splits or not self.on_cpu or decoder_of(self.model) is None:
            return False
        single = self._trial()
        self.fused = True  # for the trial's own pass
        try:
            return _matches(self._trial(packed=True, split=True), single)
        except _REFUSALS:  # a layer has other parts
            return False
        finally:
            del self.fused

    @cached_property
    def splits(self) -> bool:
        """Whether the output layer on the body's hidden states gives the model's logits.

        False if an architecture scales or caps them afterwards.
        """
        if self.model.get_output_embeddings() is None or self.model.base_model is self.model:
            return False
        try:
            return _matches(self._trial(split=True), self._trial())
        except _REFUSALS:  # its body has another signature
            return False

    @cached_property
    def packs(self) -> bool:
        """Whether packed rows give the logits of single ones.

        False if a layer is not full attention (sliding window, chunks, linear), or if the attention implementation
        accepts no custom mask or ignores it: responses would silently see each other.
        """
        if not self._takes_positions or not attends_fully(self.model):
            return False
        blocks, self.blocks = self.blocks, False
        try:
            if self._packs():
                return True
            if not self.on_cpu:
                return False
            self.on_cpu = False
            log.info(
                "packed rows use an explicit mask, because tree attention gives other logits for this model"
            )
            return self._packs()
        finally:
            self.blocks = blocks

    def _packs(self) -> bool:
        try:
            packed, blind = self._trial(packed=True), self._trial(packed=True, blind=True)
        except _REFUSALS:  # it accepts no such mask
            return False
        single = self._trial()
        limit = _MAX_RELATIVE_ERROR * _max_error(blind, single)
        return _matches(packed, single) and _max_error(packed, single) < limit

    @cached_property
    def blocks(self) -> bool:
        """Whether packed rows use FlexAttention: on a GPU, or if configured, where a trial gives the logits of single
        rows, also in a pass with gradients.
        """
        chosen = self._attention == "flex" or (self._attention == "auto" and self.model.device.type == "cuda")
        if not chosen or not self._takes_positions or not attends_fully(self.model):
            return False
        if self.model.config._attn_implementation != ATTENTION:
            return False
        single = self._trial()
        self.blocks = True  # for the trial's own passes
        try:
            packed = self._trial(packed=True)
            with torch.enable_grad():
                self._logits(self.model, self._batch(packed=True), split=False).float().sum().backward()
        except Exception as error:  # compilers raise errors of many kinds
            log.warning("packed rows use an explicit mask, because FlexAttention failed: %s", error)
            return False
        finally:
            del self.blocks
            self.model.zero_grad(set_to_none=True)
        if not _matches(packed, single):
            log.warning(
                "packed rows use an explicit mask, because FlexAttention gives other logits for this model"
            )
            return False
        return True

    @torch.no_grad()
    def _trial(self, *, packed: bool = False, split: bool = False, blind: bool = False) -> Tensor:
        """The logits (T, V) of the trial batch in evaluation mode."""
        was_training = self.model.training
        self.model.eval()
        batch = self._batch(packed=packed, blind=blind)
        logits = self._logits(self.model, batch, split=split)[batch.node_indices]
        self.model.train(was_training)
        return logits

    def _batch(self, *, packed: bool, blind: bool = False) -> RowBatch:
        """The trial batch: two answers to one prompt. `blind`: the mask is only causal."""
        table: Any = self.model.get_input_embeddings()
        size = int(table.weight.shape[0])
        token_ids = [(7 * index + 3) % size for index in range(12)]
        answers = [Answer(part, [], [], "length", "") for part in sorted((token_ids[5:8], token_ids[8:12]))]
        group = Group("", 0, token_ids[:5], answers, [], [], 1.0, 0, 1.0)
        rows = tree_rows([group], [0], 100) if packed else single_rows([group], [0])
        if blind:
            rows[0].ends = [len(rows[0].tokens)] * len(rows[0].tokens)
        return collate(rows, 0, packed=packed, device=self.model.device, blocks=packed and self.blocks)


def _head(model: PreTrainedModel) -> Any:
    return model.get_output_embeddings()


def _matches(one: Tensor, other: Tensor) -> bool:
    return _max_error(one, other) <= _TOLERANCE[other.dtype] * float(other.abs().max())


def _max_error(one: Tensor, other: Tensor) -> float:
    return float((one.float() - other.float()).abs().max())
