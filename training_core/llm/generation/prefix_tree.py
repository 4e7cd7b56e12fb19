"""Texts with common prefixes, whose keys and values are stored once: a tree per prompt, in one preallocated store.

G rows of the store, S its columns, N nodes, Q maximum nodes of a row, H heads, D head size, V vocabulary. A row
contains one prompt and the tree of its answers, one column per token. A node is the last token of a text: it attends
to the columns of the preceding tokens and to its own. All nodes pass through the model as one sequence without
padding; only attention arranges them by rows. A prompt can be added to a free row at any time.

Decoding steps can have fixed shapes, which a GPU captures once and replays (CUDA graphs). For small steps, launching
kernels one by one costs more than running them; a graph launches all of them together, but reads and writes the same
memory each time. Therefore a step's inputs are padded to one of a few sizes and copied into persistent buffers. Without a
GPU the same steps run without capture. A store whose columns grow has new memory, so that its graphs are captured again:
`reserve` allocates what a call may need. `python -m tests.gpu engine` compares captured steps with the plain model.
"""

import logging
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad, scaled_dot_product_attention
from transformers import AttentionInterface, PreTrainedModel
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from training_core.llm.generation.prefix_cache import CachedPrefix, Layers
from training_core.llm.generation.requests import Ints, PromptGroup
from training_core.llm.models.decoder import Layer, Places, decoder_of, rotated
from training_core.llm.models.packed_attention import attends_fully
from training_core.llm.models.transfers import all_to_device, to_device

logger = logging.getLogger(__name__)
_MAX_SHAPES = 128
"""Maximum number of shapes whose buffers and graphs are cached."""
_WARM_UP = 2
"""Passes before a capture, which select kernels and allocate work space."""


@dataclass(frozen=True)
class DecodingStep:
    """The inputs of one decoding step."""

    tokens: Tensor
    """(1, N)"""
    positions: Tensor
    """(1, N)"""
    rows: Tensor
    """(N,) row of the store."""
    columns: Tensor
    """(N,)"""
    grid: Tensor
    """(G, Q)"""
    flat_positions: Tensor
    """(N,)"""
    mask: Tensor
    """(G, 1, Q, S)"""

    @property
    def shape(self) -> tuple[int, ...]:
        """(N, G, Q, S)"""
        return (self.tokens.shape[1], *self.grid.shape, self.mask.shape[-1])

    def copy_from(self, other: "DecodingStep") -> None:
        """Copy the values of a step of this shape."""
        for field in fields(self):
            getattr(self, field.name).copy_(getattr(other, field.name))


def bucket(size: int, limit: int | None = None) -> int:
    """Return the next power of two, but not above `limit`."""
    rounded = 1 << (max(size, 1) - 1).bit_length()
    return rounded if limit is None else min(rounded, limit)


@dataclass(frozen=True)
class _Captured:
    graph: Any
    logits: Tensor


class StaticSteps:
    """Runs steps by `forward`, with separate buffers for each shape."""

    def __init__(self, forward: Callable[[DecodingStep], Tensor], device: torch.device) -> None:
        self._forward = forward
        self.captures = device.type == "cuda" and torch.cuda.is_available()
        """Whether steps are captured."""
        self._buffers: dict[tuple[int, ...], DecodingStep] = {}
        self._graphs: dict[tuple[int, ...], _Captured] = {}

    @property
    def shapes(self) -> list[tuple[int, ...]]:
        """Shapes with buffers."""
        return list(self._buffers)

    def clear(self) -> None:
        """Drop all graphs, because the memory that they read and write has been reallocated."""
        self._buffers.clear()
        self._graphs.clear()

    def run(self, step: DecodingStep) -> Tensor:
        """Logits (N, V) of the step's nodes; valid until the next step."""
        if len(self._buffers) >= _MAX_SHAPES and step.shape not in self._buffers:
            self.clear()
        buffers = self._buffers.setdefault(step.shape, step)
        if buffers is not step:
            buffers.copy_from(step)
        if not self.captures:
            return self._forward(buffers)
        captured = self._graphs.get(step.shape) or self._capture(buffers)
        if captured is None:
            return self._forward(buffers)
        captured.graph.replay()
        return captured.logits

    def _capture(self, buffers: DecodingStep) -> _Captured | None:
        """Capture the step on these buffers; if the model does not support it, log this and stop capturing."""
        try:
            side_stream: Any = torch.cuda.Stream()
            side_stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side_stream):
                for _ in range(_WARM_UP):
                    self._forward(buffers)
            torch.cuda.current_stream().wait_stream(side_stream)
            graph: Any = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                logits = self._forward(buffers)
        except RuntimeError as error:
            logger.warning(
                "decoding continues without CUDA graphs, because this model cannot be captured: %s", error
            )
            self.captures = False
            return None
        self._graphs[buffers.shape] = _Captured(graph, logits)
        return self._graphs[buffers.shape]


_STORE_MASK = torch.uint8
"""Type of the mask with which a store calls the model; no other mask has it."""
_ATTENTION = "sdpa"
"""The transformers attention implementation that a prefix tree replaces."""
_MIN_GROWTH = 32
"""Minimum number of columns by which the store grows."""
_MAX_EMPTY_SHARE = 0.25
"""Share of empty rows above which the store is compacted, which copies it."""
_SMALL_KEYS = 2**11
"""Numbers of a row's and head's keys up to which attention is computed without a fused kernel on the CPU."""
_FEW_QUERIES = 16
"""Queries of a row and a head up to which this is so for fp32 keys of any size."""
_TOLERANCE = {torch.float32: 1e-4, torch.bfloat16: 0.03, torch.float16: 0.005}
"""Tolerance of a trial's logits against the model's, relative to the largest of them."""


@dataclass
class _ForwardPass:
    """The positions of a forward pass's nodes in the store."""

    rows: Tensor
    """(N,)"""
    columns: Tensor
    """(N,)"""
    grid: Tensor
    """(G, Q) node at each position of each row; positions without one repeat another node."""
    flat_positions: Tensor
    """(N,) each node's position, as an index into G * Q."""
    mask: Tensor | None
    """(G, 1, Q, S) additive; None: the nodes are whole prompts, and each sees those before it."""
    used_rows: Tensor | None = None
    """(G,) the rows of the store that are read; None: the first G."""
    layer: int = 0
    """Number of the next module: it is counted, because a compiled layer that read its own would be compiled for each number."""
    _targets: Tensor | None = None
    _repeated: Tensor | None = None

    def repeated_mask(self, repeats: int) -> Tensor:
        """(G, 1, R * Q, S) the mask for each of R query heads with the same key head; every layer has equally many."""
        assert self.mask is not None
        if self._repeated is None:
            self._repeated = self.mask.repeat(1, 1, repeats, 1) if repeats > 1 else self.mask
        return self._repeated

    def targets(self, stored: Tensor) -> Tensor:
        """(N * H,) where the nodes' keys are in a layer's store (G, H, S, D), as indices into G * H * S."""
        _, heads, columns, _ = stored.shape
        if self._targets is None:
            first = (self.rows * (heads * columns) + self.columns).unsqueeze(1)
            steps = torch.arange(0, heads * columns, columns, device=first.device)
            self._targets = (first + steps).flatten()
        return self._targets


class PrefixTreeStore:
    """The store, its active nodes, and the model that extends them.

    With `static` it uses steps of a few fixed shapes, and can be reused after `clear`. With `fused` the
    layers of models/decoder.py are used, if they support the model.
    """

    def __init__(
        self, model: PreTrainedModel, rows: int, *, static: bool = False, fused: bool = False
    ) -> None:
        self._model = model
        self._decoder = decoder_of(model) if fused else None
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
        self._no_mask = torch.zeros(1, 1, 1, 1, dtype=_STORE_MASK, device=self._device)
        """Prevents the model from creating a mask: a mask with four dimensions is used unchanged."""
        self._pass: _ForwardPass

    @property
    def rows(self) -> int:
        """Number of trees that fit."""
        return self._count

    def clear(self) -> None:
        """Remove all trees. No node attends to the remaining contents of the store. The weights may change afterwards."""
        self._decoder = decoder_of(self._model) if self._decoder is not None else None
        self._filled[:] = 0
        self._rows = self._positions = np.zeros(0, dtype=np.int64)
        self._seen = self._seen[:0]

    def count_admissible(self, waiting: Sequence[PromptGroup]) -> int:
        """Number of waiting groups that can be added now."""
        return min(int((self._filled == 0).sum()), len(waiting))

    def prefill(self, prompts: Sequence[Sequence[int]]) -> Tensor:
        """Add a tree for each prompt, whose last token becomes a node. Returns the new nodes' logits (len(prompts), V)."""
        rows, lengths = self._allocate_rows([len(prompt) for prompt in prompts])
        width = int(lengths.max())
        ends = lengths.cumsum()
        columns = np.concatenate([np.arange(length) for length in lengths])
        grid = (ends - lengths)[:, None] + np.minimum(np.arange(width), lengths[:, None] - 1)
        flat_positions = np.repeat(np.arange(len(rows)) * width, lengths) + columns
        tensors = [self._tensor(part) for part in (np.repeat(rows, lengths), columns, grid, flat_positions)]
        self._pass = _ForwardPass(tensors[0], tensors[1], tensors[2], tensors[3], None)
        tokens = np.concatenate([np.asarray(prompt, dtype=np.int64) for prompt in prompts])
        return self._forward(tokens, columns, self._tensor(ends - 1))

    def prefill_cached(self, prompts: Sequence[tuple[Sequence[int], CachedPrefix]]) -> Tensor:
        """As `prefill`, for prompts with a cached prefix: only the rest is computed."""
        rows, lengths = self._allocate_rows([len(prompt) for prompt, _ in prompts])
        cached_lengths = np.asarray([len(cached.tokens) for _, cached in prompts])
        for row, (_, cached) in zip(rows.tolist(), prompts, strict=True):
            for layer, (keys, values) in enumerate(cached.layers):
                stored = self._stored(layer, keys.transpose(0, 1), values.transpose(0, 1))
                stored[0][row, :, : keys.shape[1]] = keys
                stored[1][row, :, : keys.shape[1]] = values
        new = lengths - cached_lengths
        width, ends = int(new.max()), new.cumsum()
        columns = np.concatenate([np.arange(*span) for span in zip(cached_lengths, lengths, strict=True)])
        offsets = np.minimum(np.arange(width), new[:, None] - 1)
        grid = (ends - new)[:, None] + offsets
        flat_positions = (
            np.repeat(np.arange(len(rows)) * width, new) + columns - np.repeat(cached_lengths, new)
        )
        seen = np.arange(int(lengths.max())) <= (cached_lengths[:, None] + offsets)[..., None]
        tensors = [self._tensor(part) for part in (np.repeat(rows, new), columns, grid, flat_positions)]
        mask = self._additive_mask(torch.from_numpy(seen).to(self._device).unsqueeze(1))
        self._pass = _ForwardPass(tensors[0], tensors[1], tensors[2], tensors[3], mask, self._tensor(rows))
        tokens = np.concatenate(
            [np.asarray(prompt[len(cached.tokens) :], dtype=np.int64) for prompt, cached in prompts]
        )
        return self._forward(tokens, columns, self._tensor(ends - 1))

    def key_values(self, node: int) -> Layers:
        """Keys and values of a node's text, copied."""
        columns, row = self._seen[node].nonzero()[:, 0], int(self._rows[node])
        return [(keys[row][:, columns], values[row][:, columns]) for keys, values in self._layers]

    def _allocate_rows(self, lengths: Sequence[int]) -> tuple[Ints, Ints]:
        """Allocate rows for prompts of these lengths; the prompts' last tokens are added to the nodes. Returns rows and lengths."""
        rows = np.flatnonzero(self._filled == 0)[: len(lengths)]
        filled = np.asarray(lengths)
        self._filled[rows] = filled
        self.reserve(int(filled.max()))
        seen = torch.arange(self._columns) < torch.from_numpy(filled).unsqueeze(1)
        self._seen = torch.cat([self._seen, seen.to(self._device)])
        self._rows = np.concatenate([self._rows, rows])
        self._positions = np.concatenate([self._positions, filled - 1])
        return rows, filled

    def decode(self, parents: Ints, tokens: Ints | Tensor) -> Tensor:
        """Replace all nodes by these children; trees without children are removed. Returns the children's logits (N, V).

        Tokens that are on the device already need not be known to the host.
        """
        rows = self._rows[parents]
        used_rows, counts = np.unique(rows, return_counts=True)
        self._filled[np.setdiff1d(np.arange(self._count), used_rows)] = 0
        if len(used_rows) and len(used_rows) < (1 - _MAX_EMPTY_SHARE) * (used_rows[-1] + 1):
            rows = self._compact(used_rows, rows)
            used_rows = np.arange(len(used_rows))
        rank = np.empty_like(rows)
        rank[np.argsort(rows, kind="stable")] = np.concatenate(
            [np.arange(count) for count in counts] or [rows]
        )
        columns = self._filled[rows] + rank
        self._filled[used_rows] += counts
        self.reserve(int(self._filled.max()))
        self._rows, self._positions = rows, self._positions[parents] + 1
        if not len(rows):
            self._seen = self._seen[:0]
            return torch.empty(0, device=self._device)
        height, width, top = int(used_rows[-1]) + 1, int(counts.max()), int(self._filled.max())
        if self.steps is not None:
            height, width = bucket(height, self._count), bucket(width)
            top = bucket(top, self._columns)
        grid = np.zeros((height, width), dtype=np.int64)
        grid[rows, rank] = np.arange(len(rows))
        places = [rows, columns, self._positions, rows * width + rank]
        if self.steps is not None:
            places = self._padded(places)
        before, nodes, *inputs = all_to_device([parents, grid, *places], self._device)
        mask = self._mask_of(before, inputs[1][: len(rows)], nodes, top)
        on_device = tokens if isinstance(tokens, Tensor) else self._tensor(tokens.astype(np.int64))
        if self.steps is not None:
            on_device = pad(on_device, (0, len(inputs[0]) - len(on_device)))
        step = DecodingStep(
            on_device.unsqueeze(0), inputs[2].unsqueeze(0), inputs[0], inputs[1], nodes, inputs[3], mask
        )
        return self.steps.run(step)[: len(rows)] if self.steps is not None else self._run(step)

    def _mask_of(self, parents: Tensor, columns: Tensor, nodes: Tensor, top: int) -> Tensor:
        """Let the nodes see what their parents (N,) see, and their own columns (N,). Returns the mask of the grid (G, Q) of nodes."""
        self._seen = self._seen[parents]
        self._seen[torch.arange(len(columns), device=self._device), columns] = True
        seen = self._seen.index_select(0, nodes.flatten())[:, :top]
        return self._additive_mask(seen.view(len(nodes), 1, nodes.shape[1], top))

    def _padded(self, places: Sequence[Ints]) -> list[Ints]:
        """Rows, and three more numbers, of the nodes and of padding nodes, whose keys go to an unused row."""
        more = (0, bucket(len(places[0])) - len(places[0]))
        rows, *others = places
        return [np.pad(rows, more, constant_values=self._count), *(np.pad(part, more) for part in others)]

    def _additive_mask(self, seen: Tensor) -> Tensor:
        mask = torch.zeros(seen.shape, dtype=self._model.dtype, device=self._device)
        return mask.masked_fill_(~seen, float("-inf"))

    def _compact(self, used_rows: Ints, rows: Ints) -> Ints:
        """Move these rows to the front; returns the nodes' new rows."""
        chosen = self._tensor(used_rows)
        for keys, values in self._layers:
            keys[: len(used_rows)] = keys[chosen]
            values[: len(used_rows)] = values[chosen]
        self._filled[: len(used_rows)] = self._filled[used_rows]
        self._filled[len(used_rows) :] = 0
        return np.searchsorted(used_rows, rows)

    def reserve(self, columns: int) -> None:
        """Allocate this many columns. Unused ones are zero, because attention multiplies them by zero."""
        if columns <= self._columns:
            return
        more = max(columns + _MIN_GROWTH, self._columns * 3 // 2) - self._columns
        self._columns += more
        if self.steps is not None:
            self.steps.clear()
        self._seen = pad(self._seen, (0, more))
        for layer, (keys, values) in enumerate(self._layers):  # the old store of one layer at a time
            self._layers[layer] = pad(keys, (0, 0, 0, more)), pad(values, (0, 0, 0, more))

    def _forward(self, tokens: Ints, positions: Ints, keep: Tensor | int) -> Tensor:
        """Logits of this pass's nodes (all, or only `keep`)."""
        return self._logits(self._tensor(tokens).unsqueeze(0), self._tensor(positions).unsqueeze(0), keep)

    def _run(self, step: DecodingStep) -> Tensor:
        """Logits of a step's nodes."""
        self._pass = _ForwardPass(step.rows, step.columns, step.grid, step.flat_positions, step.mask)
        return self._logits(step.tokens, step.positions, 0)

    def _logits(self, tokens: Tensor, positions: Tensor, keep: Tensor | int) -> Tensor:
        if self._decoder is not None:
            needed = keep if isinstance(keep, Tensor) else None
            head: Any = self._model.get_output_embeddings()
            result: Tensor = head(self._decoder.hidden(tokens, positions, self._attend_rotated, needed))
            return result
        outer = _ACTIVE_STORE.set(self)
        try:
            logits: Tensor = self._model(
                input_ids=tokens,
                position_ids=positions,
                attention_mask=self._no_mask,
                use_cache=False,
                logits_to_keep=keep,
            ).logits
        finally:
            _ACTIVE_STORE.reset(outer)
        return logits[0]

    def _attend_rotated(
        self, layer: Layer, places: Places, queries: Tensor, keys: Tensor, values: Tensor
    ) -> tuple[Tensor, Sequence[Tensor]]:
        """As in Attend: the attention of this pass's nodes (1, N, heads, D)."""
        parts = (rotated(queries, places.turns)[0], rotated(keys, places.turns)[0], values[0])
        return self._attend_nodes(layer.number, *parts, layer.scale), ()

    def attend(self, query: Tensor, key: Tensor, value: Tensor, scale: float | None) -> Tensor:
        """The same for states (1, heads, N, D) of the pass's next module: (1, N, R * H, D)."""
        layer, self._pass.layer = self._pass.layer, self._pass.layer + 1
        queries, keys, values = (part[0].transpose(0, 1) for part in (query, key, value))
        return self._attend_nodes(layer, queries, keys, values, scale).view(1, *queries.shape)

    def _attend_nodes(
        self, layer: int, queries: Tensor, keys: Tensor, values: Tensor, scale: float | None
    ) -> Tensor:
        """Store keys and values (N, H, D) of this pass; return the attention output (N, R * H * D) of its queries (N, R * H, D)."""
        forward_pass = self._pass
        stored = self._stored(layer, keys, values)
        targets = forward_pass.targets(stored[0])
        for part, new in zip(stored, (keys, values), strict=True):
            part.view(-1, part.shape[-1]).index_copy_(0, targets, new.flatten(0, 1))
        (height, width), heads = forward_pass.grid.shape, keys.shape[1]
        grid = forward_pass.grid.flatten()
        # Query heads with the same key head are laid out as additional queries, so that keys are not copied.
        asking = queries.flatten(1).index_select(0, grid).view(height, width, heads, -1, queries.shape[-1])
        asking, repeats = asking.permute(0, 2, 3, 1, 4), asking.shape[3]
        if forward_pass.mask is None:
            key, value = (
                part.flatten(1).index_select(0, grid).view(height, width, heads, -1).transpose(1, 2)
                for part in (keys, values)
            )
            attended = scaled_dot_product_attention(
                asking.flatten(1, 2), key, value, is_causal=True, scale=scale, enable_gqa=repeats > 1
            )
        else:
            rows = slice(height) if forward_pass.used_rows is None else forward_pass.used_rows
            mask = forward_pass.repeated_mask(repeats)
            key, value = (part[rows, :, : mask.shape[-1]] for part in stored)
            attended = _masked_attention(asking.flatten(2, 3), key, value, mask, scale)
        by_place = (
            attended.reshape(height, heads * repeats, width, -1).transpose(1, 2).flatten(2).flatten(0, 1)
        )
        return by_place.index_select(0, forward_pass.flat_positions)

    def _stored(self, layer: int, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        """A layer's store, created on first use for keys and values of this form (..., H, D)."""
        if layer == len(self._layers):
            rows = self._count + (self.steps is not None)  # one more, for padding nodes
            shape = (rows, key.shape[-2], self._columns)
            self._layers.append(
                (key.new_zeros((*shape, key.shape[-1])), value.new_zeros((*shape, value.shape[-1])))
            )
        return self._layers[layer]

    def _tensor(self, array: Ints) -> Tensor:
        return to_device(array, self._device)


def _masked_attention(
    queries: Tensor, keys: Tensor, values: Tensor, mask: Tensor, scale: float | None
) -> Tensor:
    """Attention output (G, H, R * Q, D). On a CPU, plain products take less time than the fused kernel for few keys or queries."""
    small = keys.shape[2] * keys.shape[3] <= _SMALL_KEYS
    few = keys.dtype == torch.float32 and queries.shape[2] <= _FEW_QUERIES
    if queries.device.type != "cpu" or not (small or few):
        return scaled_dot_product_attention(queries, keys, values, mask, scale=scale)
    scaled = queries.float() * (queries.shape[-1] ** -0.5 if scale is None else scale)
    scores = torch.matmul(scaled, keys.float().transpose(2, 3)).add_(mask)
    return torch.matmul(scores.softmax(dim=-1), values.float()).to(queries.dtype)


_ACTIVE_STORE: ContextVar[PrefixTreeStore | None] = ContextVar("_ACTIVE_STORE", default=None)
"""The store whose nodes are being computed in this thread."""
_original_attention: Any = ALL_ATTENTION_FUNCTIONS[_ATTENTION]


@torch.library.custom_op("troupe::store_attention", mutates_args=())
def _store_attention(query: Tensor, key: Tensor, value: Tensor, scale: float | None) -> Tensor:
    """The active store's attention, which a compiler does not look into."""
    store = _ACTIVE_STORE.get()
    assert store is not None
    return store.attend(query, key, value, scale)


@_store_attention.register_fake
def _(query: Tensor, key: Tensor, value: Tensor, scale: float | None) -> Tensor:
    return query.new_empty(1, query.shape[2], query.shape[1], query.shape[3])


def _attend(
    module: Any, query: Tensor, key: Tensor, value: Tensor, mask: Any, *args: Any, **more: Any
) -> Any:
    """The store's attention while a store runs; otherwise, as for a learner that shares the model, the original."""
    if torch.compiler.is_compiling():  # a compiler does not know the variable's value, but the mask's type
        if isinstance(mask, Tensor) and mask.dtype == _STORE_MASK:
            return _store_attention(query, key, value, more.get("scaling")), None
    elif (store := _ACTIVE_STORE.get()) is not None:
        return store.attend(query, key, value, more.get("scaling")), None
    return _original_attention(module, query, key, value, mask, *args, **more)


AttentionInterface.register(_ATTENTION, _attend)


@torch.no_grad()
def supports_prefix_tree(model: PreTrainedModel, *, fused: bool = False) -> bool:
    """Whether a prefix tree with this model gives the model's logits, `fused` or by its modules; determined by one trial.

    False if a layer is not full attention, or attention differs from scaled dot products.
    """
    config: Any = model.config
    if not attends_fully(model) or config._attn_implementation != _ATTENTION:
        return False
    if fused and decoder_of(model) is None:
        return False
    table: Any = model.get_input_embeddings()
    size = int(table.weight.shape[0])
    token_ids = [(7 * index + 3) % size for index in range(12)]
    store = PrefixTreeStore(model, 2, fused=fused)
    try:
        store.prefill([token_ids[:5], token_ids[:3]])
        first_logits = store.decode(np.array([0, 0, 1]), np.array(token_ids[5:8]))
        second_logits = store.decode(np.array([1, 2]), np.array(token_ids[8:10]))
        texts = [[*token_ids[:5], token_ids[6], token_ids[8]], [*token_ids[:3], token_ids[7], token_ids[9]]]
        reference = [model(input_ids=torch.tensor([text], device=model.device)).logits[0] for text in texts]
    except (AttributeError, IndexError, KeyError, LookupError, RuntimeError, TypeError, ValueError):
        return False
    pairs = (
        (first_logits[1], reference[0][-2]),
        (first_logits[2], reference[1][-2]),
        (second_logits[0], reference[0][-1]),
        (second_logits[1], reference[1][-1]),
    )
    bound = _TOLERANCE[model.dtype] * max(float(expected.abs().max()) for _, expected in pairs)
    return all(float((actual - expected).abs().max()) <= bound for actual, expected in pairs)
