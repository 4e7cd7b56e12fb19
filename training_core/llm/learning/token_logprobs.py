"""Logits of response tokens by a model, only at the places that predict them.

B rows, S padded length, T response tokens in all, U distinct places that predict them, V vocabulary, H hidden size.
"""

import inspect
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from transformers import PreTrainedModel

from training_core.llm.learning.packing import Row, single_rows, tree_rows
from training_core.llm.models.attention import attends_fully
from training_core.llm.models.decoder import decoder_of
from training_core.llm.models.packed_attention import ATTENTION, MULTIPLE, tree_block_mask
from training_core.llm.models.tree_attention import TreeMask, tree_mask_by_blocks
from training_core.types import Answer, Group

log = logging.getLogger(__name__)
_TOLERANCE = {torch.float32: 1e-4, torch.bfloat16: 0.03, torch.float16: 0.005}
"""Tolerance of a trial's logits, relative to the largest of them."""
_MAX_RELATIVE_ERROR = 0.1
"""The same, relative to their error when responses see each other."""


@dataclass(frozen=True)
class RowBatch:
    """Rows as tensors, padded on the right."""

    token_ids: Tensor
    """(B, S)"""
    positions: Tensor
    """(B, S)"""
    ends: Tensor
    """(B, S) see packing; padding sees, and is seen by, only itself."""
    lengths: Tensor
    """(B,)"""
    packed: bool
    nodes: Tensor
    """(U,) places that predict a token, as indices into B * S."""
    node_indices: Tensor
    """(T,) index of the node that predicts each response token."""
    targets: Tensor
    """(T,) the token itself."""


def collate(
    rows: Sequence[Row], pad: int, *, packed: bool, device: torch.device, multiple: int = 1
) -> RowBatch:
    """Rows as one batch, whose width is a multiple of `multiple`."""
    lengths = np.array([len(row.tokens) for row in rows])
    width = -(-int(lengths.max()) // multiple) * multiple
    ids = np.full((len(rows), width), pad, dtype=np.int64)
    positions = np.zeros((len(rows), width), dtype=np.int64)
    ends = np.tile(np.arange(1, width + 1), (len(rows), 1))
    for number, row in enumerate(rows):
        length = len(row.tokens)
        ids[number, :length] = row.tokens
        positions[number, :length] = row.positions
        ends[number, :length] = row.ends
    starts = np.repeat(np.arange(len(rows)) * width, [len(row.sources) for row in rows])
    flat = starts + np.array([source for row in rows for source in row.sources], dtype=np.int64)
    nodes, node_indices = np.unique(flat, return_inverse=True)
    targets = np.array([target for row in rows for target in row.targets], dtype=np.int64)

    def tensor(array: NDArray[np.int64]) -> Tensor:
        return torch.from_numpy(array).to(device)

    return RowBatch(
        token_ids=tensor(ids),
        positions=tensor(positions),
        ends=tensor(ends),
        lengths=tensor(lengths),
        packed=packed,
        nodes=tensor(nodes),
        node_indices=tensor(node_indices),
        targets=tensor(targets),
    )


def tree_mask(ends: Tensor, dtype: torch.dtype) -> Tensor:
    """Additive mask (B, 1, S, S), 0 if a place (row) sees another (column), from `ends` (B, S)."""
    order = torch.arange(ends.shape[1], device=ends.device)
    seen = (order.unsqueeze(1) >= order) & (order.unsqueeze(1) < ends.unsqueeze(1))
    mask = torch.zeros(seen.shape, dtype=dtype, device=ends.device)
    return mask.masked_fill_(~seen, torch.finfo(dtype).min).unsqueeze(1)


class ResponseForward:
    """Computes a model's response logits. Its capabilities are determined by one trial.

    `packs`: rows may hold several responses. `splits`: the output layer may be applied to selected places only.
    `blocks`: packed rows use FlexAttention; `on_cpu`: tree attention; `attention` is learner.packed_attention.
    """

    def __init__(self, model: PreTrainedModel, attention: str = "auto") -> None:
        self.model = model
        self._attention = attention
        self._takes_positions = "position_ids" in inspect.signature(model.forward).parameters

    def logits(self, model: PreTrainedModel, batch: RowBatch) -> Tensor:
        """Logits (U, V) at the places that predict a token. `model` has this model's architecture."""
        return self._logits(model, batch, split=self.splits)

    def with_hidden(self, model: PreTrainedModel, batch: RowBatch) -> tuple[Tensor, Tensor]:
        """The same logits, with the last hidden states (U, H)."""
        inputs = self._inputs(batch, model.dtype)
        if self.splits:
            hidden = self._hidden(model, inputs, batch)
            return self._head(model, hidden), hidden
        whole = model(**inputs, output_hidden_states=True)
        logits, states = (
            part.flatten(0, 1).index_select(0, batch.nodes)
            for part in (whole.logits, whole.hidden_states[-1])
        )
        return logits, states

    def _logits(self, model: PreTrainedModel, batch: RowBatch, *, split: bool) -> Tensor:
        inputs = self._inputs(batch, model.dtype)
        if not split:
            whole: Tensor = model(**inputs).logits
            return whole.flatten(0, 1).index_select(0, batch.nodes)
        return self._head(model, self._hidden(model, inputs, batch))

    def _hidden(self, model: PreTrainedModel, inputs: dict[str, Any], batch: RowBatch) -> Tensor:
        mask = inputs["attention_mask"]
        decoder = decoder_of(model) if isinstance(mask, TreeMask) and self.fused else None
        if decoder is not None:
            return decoder.trained_hidden(batch.token_ids, batch.positions, mask, batch.nodes)
        whole: Tensor = model.base_model(**inputs).last_hidden_state
        return whole.flatten(0, 1).index_select(0, batch.nodes)

    @staticmethod
    def _head(model: PreTrainedModel, hidden: Tensor) -> Tensor:
        head: Any = model.get_output_embeddings()
        logits: Tensor = head(hidden)
        return logits

    def _inputs(self, batch: RowBatch, dtype: torch.dtype) -> dict[str, Any]:
        mask: Any
        if batch.packed:
            mask = self._packed_mask(batch.ends, dtype)
        else:
            order = torch.arange(batch.token_ids.shape[1], device=batch.lengths.device)
            mask = (order < batch.lengths.unsqueeze(1)).long()
        inputs: dict[str, Any] = {"input_ids": batch.token_ids, "attention_mask": mask, "use_cache": False}
        return inputs | ({"position_ids": batch.positions} if self._takes_positions else {})

    def _packed_mask(self, ends: Tensor, dtype: torch.dtype) -> Any:
        """The mask of packed rows, in the form of the attention that reads it."""
        if self.blocks:
            return tree_block_mask(ends)
        return tree_mask_by_blocks(ends) if self.on_cpu else tree_mask(ends, dtype)

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
        single = self._trial_logits(self._collated(packed=False), split=False)
        self.fused = True  # for the trial's own pass
        try:
            return _matches(self._trial_logits(self._collated(packed=True), split=True), single)
        except (AttributeError, TypeError, ValueError, RuntimeError):  # a layer has other parts
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
        batch = self._collated(packed=False)
        whole = self._trial_logits(batch, split=False)
        try:
            return _matches(self._trial_logits(batch, split=True), whole)
        except (AttributeError, TypeError, RuntimeError):  # its body has another signature
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
            packed = self._trial_logits(self._collated(packed=True), split=False)
            blind = self._trial_logits(self._collated(packed=True, blind=True), split=False)
        except (AttributeError, TypeError, ValueError, RuntimeError):  # it accepts no such mask
            return False
        single = self._trial_logits(self._collated(packed=False), split=False)
        return _matches(packed, single) and _max_error(packed, single) < _MAX_RELATIVE_ERROR * _max_error(
            blind, single
        )

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
        single = self._trial_logits(self._collated(packed=False), split=False)
        self.blocks = True  # for the trial's own passes
        try:
            batch = self._collated(packed=True)
            packed = self._trial_logits(batch, split=False)
            with torch.enable_grad():
                self._logits(self.model, batch, split=False).float().sum().backward()
        except Exception as error:  # compilers raise errors of many kinds
            log.warning("packed rows use an explicit mask, because FlexAttention failed: %s", error)
            return False
        finally:
            del self.blocks
            self.model.zero_grad(set_to_none=True)
        if _matches(packed, single):
            return True
        log.warning(
            "packed rows use an explicit mask, because FlexAttention gives other logits for this model"
        )
        return False

    @torch.no_grad()
    def _trial_logits(self, batch: RowBatch, *, split: bool) -> Tensor:
        """The response tokens' logits (T, V) in evaluation mode."""
        was_training = self.model.training
        self.model.eval()
        logits = self._logits(self.model, batch, split=split)[batch.node_indices]
        self.model.train(was_training)
        return logits

    def _collated(self, *, packed: bool, blind: bool = False) -> RowBatch:
        """The trial batch: two answers to one prompt. `blind`: the mask is only causal."""
        table: Any = self.model.get_input_embeddings()
        size = int(table.weight.shape[0])
        token_ids = [(7 * index + 3) % size for index in range(12)]
        answers = [Answer(part, [], [], "length", "") for part in sorted((token_ids[5:8], token_ids[8:12]))]
        group = Group("", 0, token_ids[:5], answers, [], [], 1.0, 0, 1.0)
        rows = tree_rows([group], [0], 100) if packed else single_rows([group], [0])
        if blind:
            rows[0].ends = [len(rows[0].tokens)] * len(rows[0].tokens)
        return collate(rows, 0, packed=packed, device=self.model.device, multiple=MULTIPLE if packed else 1)


def _matches(one: Tensor, other: Tensor) -> bool:
    return _max_error(one, other) <= _TOLERANCE[other.dtype] * float(other.abs().max())


def _max_error(one: Tensor, other: Tensor) -> float:
    return float((one.float() - other.float()).abs().max())
