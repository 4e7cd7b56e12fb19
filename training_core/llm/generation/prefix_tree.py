"""Texts with common prefixes, whose keys and values are stored once: a tree per prompt, in one preallocated store.

G rows of the store, S its columns, N nodes, Q maximum nodes of a row, H heads, D head size, V vocabulary. A row
contains one prompt and the tree of its answers, one column per token. A node is the last token of a text: it attends
to the columns of the preceding tokens and to its own. All nodes pass through the model as one sequence without
padding; only attention arranges them by rows. A prompt can be added to a free row at any time.
"""

from collections.abc import Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention
from transformers import AttentionInterface, PreTrainedModel
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from training_core.llm.generation.prefix_cache import Kept, Layers
from training_core.llm.generation.requests import Ints, Plot
from training_core.llm.generation.static_steps import StaticSteps, Step, bucket
from training_core.llm.models.attention import attends_fully

_ATTENTION = "sdpa"
"""The transformers attention implementation that a forest replaces."""
_ROOM = 32
"""Minimum number of columns by which the store grows."""
_WASTE = 0.25
"""Share of empty rows above which the store is compacted, which copies it."""
_ROUNDING = {torch.float32: 1e-4, torch.bfloat16: 0.03, torch.float16: 0.005}
"""Tolerance of a trial's logits against the model's, relative to the largest of them."""


@dataclass(frozen=True)
class _Pass:
    """The positions of a forward pass's nodes in the store."""

    rows: Tensor
    """(N,)"""
    columns: Tensor
    """(N,)"""
    grid: Tensor
    """(G, Q) node at each position of each row; positions without one repeat another node."""
    spots: Tensor
    """(N,) each node's position, as an index into G * Q."""
    mask: Tensor | None
    """(G, 1, Q, S) additive; None: the nodes are whole prompts, and each sees those before it."""
    held: Tensor | None = None
    """(G,) the rows of the store that are read; None: the first G."""


class Forest:
    """The store, its active nodes, and the model that extends them.

    With `static` it uses steps of a few fixed shapes (static_steps.py), and can be reused after `clear`.
    """

    def __init__(self, model: PreTrainedModel, rows: int, *, static: bool = False) -> None:
        self._model = model
        self._device = model.device
        self._count = rows
        self.steps = StaticSteps(self._run, model.device) if static else None
        self._columns = 0
        self._layers: list[tuple[Tensor, Tensor]] = []
        """Keys and values (G, H, S, D) of each layer."""
        self._filled = np.zeros(rows, dtype=np.int64)
        """(G,) columns in use; 0 without a tree."""
        self._rows = np.zeros(0, dtype=np.int64)
        """(N,) row of each node."""
        self._positions = np.zeros(0, dtype=np.int64)
        """(N,) position of each node's token in its text."""
        self._seen = torch.zeros(0, 0, dtype=torch.bool, device=self._device)
        """(N, S) the columns that each node sees."""
        self._no_mask = torch.zeros(1, 1, 1, 1, device=self._device)
        """Prevents the model from creating a mask: a mask with four dimensions is used unchanged."""
        self._pass: _Pass

    @property
    def rows(self) -> int:
        """Number of trees that fit."""
        return self._count

    def clear(self) -> None:
        """Remove all trees. No node attends to the remaining contents of the store."""
        self._filled[:] = 0
        self._rows = self._positions = np.zeros(0, dtype=np.int64)
        self._seen = self._seen[:0]

    def room(self, waiting: Sequence[Plot]) -> int:
        """Number of waiting plots that can be added now."""
        return min(int((self._filled == 0).sum()), len(waiting))

    def plant(self, prompts: Sequence[Sequence[int]]) -> Tensor:
        """Add a tree for each prompt, whose last token becomes a node. Returns the new nodes' logits (len(prompts), V)."""
        rows, lengths = self._claim([len(prompt) for prompt in prompts])
        width = int(lengths.max())
        ends = lengths.cumsum()
        columns = np.concatenate([np.arange(length) for length in lengths])
        grid = (ends - lengths)[:, None] + np.minimum(np.arange(width), lengths[:, None] - 1)
        spots = np.repeat(np.arange(len(rows)) * width, lengths) + columns
        placed = [self._tensor(part) for part in (np.repeat(rows, lengths), columns, grid, spots)]
        self._pass = _Pass(placed[0], placed[1], placed[2], placed[3], None)
        tokens = np.concatenate([np.asarray(prompt, dtype=np.int64) for prompt in prompts])
        return self._forward(tokens, columns, self._tensor(ends - 1))

    def plant_known(self, prompts: Sequence[tuple[Sequence[int], Kept]]) -> Tensor:
        """As `plant`, for prompts with a cached prefix: only the rest is computed."""
        rows, lengths = self._claim([len(prompt) for prompt, _ in prompts])
        known = np.asarray([len(kept.tokens) for _, kept in prompts])
        for row, (_, kept) in zip(rows.tolist(), prompts, strict=True):
            for layer, (keys, values) in enumerate(kept.layers):
                stored = self._stored(layer, keys, values)
                stored[0][row, :, : keys.shape[1]] = keys
                stored[1][row, :, : keys.shape[1]] = values
        new = lengths - known
        width, ends = int(new.max()), new.cumsum()
        columns = np.concatenate([np.arange(*span) for span in zip(known, lengths, strict=True)])
        place = np.minimum(np.arange(width), new[:, None] - 1)
        grid = (ends - new)[:, None] + place
        spots = np.repeat(np.arange(len(rows)) * width, new) + columns - np.repeat(known, new)
        seen = np.arange(int(lengths.max())) <= (known[:, None] + place)[..., None]
        placed = [self._tensor(part) for part in (np.repeat(rows, new), columns, grid, spots)]
        mask = self._additive(torch.from_numpy(seen).to(self._device).unsqueeze(1))
        self._pass = _Pass(placed[0], placed[1], placed[2], placed[3], mask, self._tensor(rows))
        tokens = np.concatenate(
            [np.asarray(prompt[len(kept.tokens) :], dtype=np.int64) for prompt, kept in prompts]
        )
        return self._forward(tokens, columns, self._tensor(ends - 1))

    def path(self, node: int) -> Layers:
        """Keys and values of a node's text, copied."""
        columns, row = self._seen[node].nonzero()[:, 0], int(self._rows[node])
        return [(keys[row][:, columns], values[row][:, columns]) for keys, values in self._layers]

    def _claim(self, lengths: Sequence[int]) -> tuple[Ints, Ints]:
        """Allocate rows for prompts of these lengths; the prompts' last tokens are added to the nodes. Returns rows and lengths."""
        rows = np.flatnonzero(self._filled == 0)[: len(lengths)]
        filled = np.asarray(lengths)
        self._filled[rows] = filled
        self._reserve(int(filled.max()))
        seen = torch.arange(self._columns) < torch.from_numpy(filled).unsqueeze(1)
        self._seen = torch.cat([self._seen, seen.to(self._device)])
        self._rows = np.concatenate([self._rows, rows])
        self._positions = np.concatenate([self._positions, filled - 1])
        return rows, filled

    def grow(self, parents: Ints, tokens: Ints) -> Tensor:
        """Replace all nodes by these children; trees without children are removed. Returns the children's logits (N, V)."""
        rows = self._rows[parents]
        held, counts = np.unique(rows, return_counts=True)
        self._filled[np.setdiff1d(np.arange(self._count), held)] = 0
        if len(held) and len(held) < (1 - _WASTE) * (held[-1] + 1):
            rows = self._compact(held, rows)
            held = np.arange(len(held))
        rank = np.empty_like(rows)
        rank[np.argsort(rows, kind="stable")] = np.concatenate(
            [np.arange(count) for count in counts] or [rows]
        )
        columns = self._filled[rows] + rank
        self._filled[held] += counts
        self._reserve(int(self._filled.max()))
        self._rows, self._positions = rows, self._positions[parents] + 1
        self._seen = self._seen[self._tensor(parents)]
        self._seen[torch.arange(len(rows), device=self._device), self._tensor(columns)] = True
        if not len(rows):
            return torch.empty(0, device=self._device)
        height, width, top = int(held[-1]) + 1, int(counts.max()), int(self._filled.max())
        if self.steps is not None:
            height, width = bucket(height, self._count), bucket(width)
            top = bucket(top, self._columns)
        grid = np.zeros((height, width), dtype=np.int64)
        grid[rows, rank] = np.arange(len(rows))
        spots = rows * width + rank
        placed = self._tensor(grid)
        mask = self._additive(self._seen[placed, :top].unsqueeze(1))
        if self.steps is not None:
            return self.steps.run(self._padded(tokens, columns, placed, spots, mask))[: len(rows)]
        self._pass = _Pass(self._tensor(rows), self._tensor(columns), placed, self._tensor(spots), mask)
        return self._forward(tokens, self._positions, 0)

    def _padded(self, tokens: Ints, columns: Ints, grid: Tensor, spots: Ints, mask: Tensor) -> Step:
        """The step padded to a shape's number of nodes: keys of padding nodes go to an unused row."""
        more = (0, bucket(len(tokens)) - len(tokens))
        rows = self._tensor(np.pad(self._rows, more, constant_values=self._count))
        padded = [
            self._tensor(np.pad(part, more))
            for part in (tokens.astype(np.int64), self._positions, columns, spots)
        ]
        return Step(padded[0].unsqueeze(0), padded[1].unsqueeze(0), rows, padded[2], grid, padded[3], mask)

    def _additive(self, seen: Tensor) -> Tensor:
        mask = torch.zeros(seen.shape, dtype=self._model.dtype, device=self._device)
        return mask.masked_fill_(~seen, float("-inf"))

    def _compact(self, held: Ints, rows: Ints) -> Ints:
        """Move these rows to the front; returns the nodes' new rows."""
        chosen = self._tensor(held)
        for keys, values in self._layers:
            keys[: len(held)] = keys[chosen]
            values[: len(held)] = values[chosen]
        self._filled[: len(held)] = self._filled[held]
        self._filled[len(held) :] = 0
        return np.searchsorted(held, rows)

    def _reserve(self, columns: int) -> None:
        """Allocate this many columns. Unused ones are zero, because attention multiplies them by zero."""
        if columns <= self._columns:
            return
        more = max(columns + _ROOM, self._columns * 3 // 2) - self._columns
        self._columns += more
        if self.steps is not None:
            self.steps.forget()
        self._seen = torch.nn.functional.pad(self._seen, (0, more))
        pad = (0, 0, 0, more)
        self._layers = [
            (torch.nn.functional.pad(keys, pad), torch.nn.functional.pad(values, pad))
            for keys, values in self._layers
        ]

    def _forward(self, tokens: Ints, positions: Ints, keep: Tensor | int) -> Tensor:
        """Logits of this pass's nodes (all, or only `keep`)."""
        return self._logits(self._tensor(tokens).unsqueeze(0), self._tensor(positions).unsqueeze(0), keep)

    def _run(self, step: Step) -> Tensor:
        """Logits of a step's nodes."""
        self._pass = _Pass(step.rows, step.columns, step.grid, step.spots, step.mask)
        return self._logits(step.tokens, step.positions, 0)

    def _logits(self, tokens: Tensor, positions: Tensor, keep: Tensor | int) -> Tensor:
        outer = _SPEAKING.set(self)
        try:
            logits: Tensor = self._model(
                input_ids=tokens,
                position_ids=positions,
                attention_mask=self._no_mask,
                use_cache=False,
                logits_to_keep=keep,
            ).logits
        finally:
            _SPEAKING.reset(outer)
        return logits[0]

    def attend(self, layer: int, query: Tensor, key: Tensor, value: Tensor, scale: float | None) -> Tensor:
        """Store keys and values (1, H, N, D) of this pass; return the attention output of its queries (1, R * H, N,
        D): (1, N, R * H, D).
        """
        how = self._pass
        keys, values = self._stored(layer, key[0], value[0])
        keys[how.rows, :, how.columns] = key[0].transpose(0, 1)
        values[how.rows, :, how.columns] = value[0].transpose(0, 1)
        heads, repeats = key.shape[1], query.shape[1] // key.shape[1]
        height, width = how.grid.shape
        laid = query[0][:, how.grid].view(heads, repeats, height, width, -1)
        # Query heads with the same key head are laid out as additional queries, so that keys are not copied.
        laid = laid.permute(2, 0, 1, 3, 4)
        if how.mask is None:
            keys, values = (part[0][:, how.grid].transpose(0, 1) for part in (key, value))
            found = scaled_dot_product_attention(
                laid.flatten(1, 2), keys, values, is_causal=True, scale=scale, enable_gqa=repeats > 1
            )
        else:
            top = how.mask.shape[-1]
            mask = how.mask.repeat(1, 1, repeats, 1) if repeats > 1 else how.mask
            looked_at = slice(height) if how.held is None else how.held
            keys, values = keys[looked_at, :, :top], values[looked_at, :, :top]
            found = scaled_dot_product_attention(laid.flatten(2, 3), keys, values, mask, scale=scale)
        by_head = found.reshape(height, heads * repeats, width, -1)
        return by_head.transpose(1, 2).flatten(0, 1)[how.spots].unsqueeze(0)

    def _stored(self, layer: int, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        """A layer's store, created on first use for keys and values of this form (H, ..., D)."""
        if layer == len(self._layers):
            rows = self._count + (self.steps is not None)  # one more, for padding nodes
            shape = (rows, key.shape[0], self._columns)
            self._layers.append(
                (key.new_zeros((*shape, key.shape[-1])), value.new_zeros((*shape, value.shape[-1])))
            )
        return self._layers[layer]

    def _tensor(self, array: Ints) -> Tensor:
        return torch.from_numpy(array).to(self._device)


_SPEAKING: ContextVar[Forest | None] = ContextVar("_SPEAKING", default=None)
"""The forest whose nodes are being computed in this thread."""
_usual: Any = ALL_ATTENTION_FUNCTIONS[_ATTENTION]


def _attend(module: Any, query: Tensor, key: Tensor, value: Tensor, *masks: Any, **more: Any) -> Any:
    """The forest's attention while a forest runs; otherwise, as for a learner that shares the model, the original."""
    forest = _SPEAKING.get()
    if forest is None:
        return _usual(module, query, key, value, *masks, **more)
    return forest.attend(module.layer_idx, query, key, value, more.get("scaling")), None


AttentionInterface.register(_ATTENTION, _attend)


@torch.no_grad()
def can_grow(model: PreTrainedModel) -> bool:
    """Whether a forest with this model gives the model's logits; determined by one trial.

    False if a layer is not full attention, or attention differs from scaled dot products.
    """
    config: Any = model.config
    if not attends_fully(model) or config._attn_implementation != _ATTENTION:
        return False
    table: Any = model.get_input_embeddings()
    size = int(table.weight.shape[0])
    words = [(7 * place + 3) % size for place in range(12)]
    forest = Forest(model, 2)
    try:
        forest.plant([words[:5], words[:3]])
        first = forest.grow(np.array([0, 0, 1]), np.array(words[5:8]))
        second = forest.grow(np.array([1, 2]), np.array(words[8:10]))
        texts = [[*words[:5], words[6], words[8]], [*words[:3], words[7], words[9]]]
        own = [model(input_ids=torch.tensor([text], device=model.device)).logits[0] for text in texts]
    except (AttributeError, IndexError, KeyError, LookupError, RuntimeError, TypeError, ValueError):
        return False
    pairs = ((first[1], own[0][-2]), (first[2], own[1][-2]), (second[0], own[0][-1]), (second[1], own[1][-1]))
    bound = _ROUNDING[model.dtype] * max(float(wanted.abs().max()) for _, wanted in pairs)
    return all(float((found - wanted).abs().max()) <= bound for found, wanted in pairs)
