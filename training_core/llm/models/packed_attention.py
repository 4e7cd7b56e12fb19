"""Attention of packed rows: by blocks of places, in place of a number for every pair of places.

B rows, S places, H heads of keys and values, R query heads per key head, D head size. `ends` (B, S): place j is seen by
the places j, j + 1, ..., ends[j] - 1 (see learning/packing.py).

On a GPU, FlexAttention (Dong et al. 2024, arXiv 2412.05496): a kernel skips blocks without visible places, and needs no
mask for blocks that are visible as a whole. On the CPU, torch has no gradients of it; there, tree attention skips blocks
of keys that no query of a block sees. Probabilities are computed again in the backward pass, so memory is linear in S.

A model whose attention is torch's scaled dot product accepts such a mask as its attention mask: the mask itself selects
the kernel, so that activation checkpointing repeats the same computation.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
from torch import Tensor
from torch._dynamo import config as dynamo
from torch._dynamo import lookup_backend
from torch._dynamo.exc import FailOnRecompileLimitHit
from torch.nn.attention.flex_attention import BlockMask, flex_attention
from torch.nn.functional import pad
from transformers import AttentionInterface, PreTrainedModel
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from training_core.errors import LearnerFailure

_MASKABLE = ("sdpa", "eager")
"""Attention implementations that accept a custom mask."""


def attends_fully(model: PreTrainedModel) -> bool:
    """Whether every layer attends to all previous tokens (no window, chunks, recurrence) and accepts a custom mask."""
    config: Any = model.config.get_text_config()
    window = getattr(config, "sliding_window", None) if getattr(config, "use_sliding_window", True) else None
    kinds = getattr(config, "layer_types", None) or []
    return (
        all(kind == "full_attention" for kind in kinds)
        and not window
        and not getattr(config, "attention_chunk_size", None)
        and config._attn_implementation in _MASKABLE
    )


_SMALL_BLOCK, _BLOCK, _LARGE_BLOCK = 32, 64, 128
_SMALL_WIDTH, _WIDTH = 256, 2048
"""Maximum width of rows with small blocks, and with medium ones."""
_AT_ONCE = 2**19
"""Attention scores that are computed at once, so that they remain in the processor's cache."""


@dataclass(frozen=True)
class QueryBlock:
    """Consecutive places, and the places that they see."""

    first: int
    last: int
    """The first place after the block."""
    seen: tuple[tuple[int, int], ...]
    """Ranges of places that some of them see: first those that all of them see."""
    whole: int
    """Number of places of `seen` that all of them see."""
    hidden: Tensor
    """(B, last - first, the remaining places of `seen`) whether a place does not see another."""


class TreeMask(Tensor):
    """A mask with four dimensions, which models pass to their attention unchanged; its contents are `blocks`.

    A result of another operation than KEEPING has none, and tree_attention refuses it.
    """

    blocks: tuple[QueryBlock, ...] = ()

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """As any tensor's; copies keep their blocks (DeepSpeed detaches what modules receive)."""
        usual: Any = super().__torch_function__  # torch has no types for it
        result = usual(func, types, args, kwargs or {})
        if func in KEEPING and isinstance(result, TreeMask):
            result.blocks = args[0].blocks
        return result


KEEPING = (Tensor.detach, Tensor.to, Tensor.contiguous, Tensor.clone)


def tree_mask_by_blocks(ends: Tensor) -> TreeMask:
    """The mask of rows with `ends` (B, S)."""
    mask = torch.zeros(1, 1, 1, 1).as_subclass(TreeMask)
    mask.blocks = tuple(_query_blocks(ends))
    return mask


def tree_attention(query: Tensor, key: Tensor, value: Tensor, mask: TreeMask, scale: float) -> Tensor:
    """Attention output (B, R * H, S, D) of queries (B, R * H, S, D) on keys and values (B, H, S, D).

    Raises TypeError if the model has computed another mask from this one.
    """
    if not mask.blocks:
        raise TypeError("the model changes its attention mask, which tree attention does not support")
    apply: Any = _TreeAttention.apply  # torch has no types for it
    attended: Tensor = apply(query, key, value, mask.blocks, scale)
    return attended


def _query_blocks(ends: Tensor) -> Iterator[QueryBlock]:
    width = ends.shape[1]
    size = _SMALL_BLOCK if width <= _SMALL_WIDTH else _BLOCK if width <= _WIDTH else _LARGE_BLOCK
    size = width if width <= 2 * size else size
    starts = torch.arange(0, width, size)
    parts = pad(ends, (0, len(starts) * size - width)).unflatten(1, (-1, size))
    latest, earliest = parts.amax(-1).amax(0).tolist(), parts.amin(-1).amin(0).tolist()
    places = torch.arange(width)
    for number, first in enumerate(starts.tolist()):
        last = min(first + size, width)
        before = [other for other in range(number) if latest[other] > first]
        whole = [other for other in before if earliest[other] >= last]
        some = [other for other in before if earliest[other] < last] + [number]
        rest = torch.cat([places[other * size : min((other + 1) * size, width)] for other in some])
        rows = places[first:last].unsqueeze(1)
        hidden = (rows < rest) | (rows >= ends[:, rest].unsqueeze(1))
        yield QueryBlock(first, last, _ranges([*whole, *some], size, width), len(whole) * size, hidden)


def _ranges(blocks: list[int], size: int, width: int) -> tuple[tuple[int, int], ...]:
    """Blocks as ranges of places, neighbours joined."""
    ranges: list[tuple[int, int]] = []
    for block in blocks:
        first, last = block * size, min((block + 1) * size, width)
        if ranges and ranges[-1][1] == first:
            ranges[-1] = (ranges[-1][0], last)
        else:
            ranges.append((first, last))
    return tuple(ranges)


class _TreeAttention(torch.autograd.Function):
    """Attention with its gradient, block by block."""

    @staticmethod
    def forward(ctx: Any, query: Tensor, key: Tensor, value: Tensor, blocks: Any, scale: float) -> Tensor:
        rows, heads, width, _ = key.shape
        queries = (query * scale).view(rows, heads, -1, width, query.shape[-1]).contiguous()
        key, value = key.contiguous(), value.contiguous()
        ctx.save_for_backward(queries, key, value)
        ctx.blocks, ctx.scale = blocks, scale
        return block_attention(queries, key, value, blocks).permute(0, 2, 3, 1, 4).flatten(1, 2)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        queries, key, value = ctx.saved_tensors
        outputs = gradients[0].reshape(*queries.shape[:-1], value.shape[-1]).contiguous()
        of_queries, of_keys, of_values = attention_gradients(outputs, queries, key, value, ctx.blocks)
        of_query = of_queries.mul_(ctx.scale).flatten(1, 2)
        return of_query, of_keys.to(key.dtype), of_values.to(value.dtype), None, None


def block_attention(
    queries: Tensor,
    key: Tensor,
    value: Tensor,
    blocks: tuple[QueryBlock, ...],
    saved: list[Tensor] | None = None,
) -> Tensor:
    """Attention output (B, S, H, R, D) of scaled queries (B, H, R, S, D) on keys and values (B, H, S, D).

    Adds the attention weights of each piece to `saved`.
    """
    rows, width = len(key), key.shape[2]
    attended = queries.new_empty(rows, width, *queries.shape[1:3], value.shape[-1])
    by_head = attended.permute(0, 2, 3, 1, 4)
    for block, some in _pieces(blocks, queries):
        weights = _weights(_queries(queries[some], block), _seen(key[some], block), block, some)
        if saved is not None:
            saved.append(weights)
        result = torch.bmm(weights, _seen(value[some], block))
        part = by_head[some, :, :, block.first : block.last]
        part.copy_(result.view(part.shape))
    return attended


def attention_gradients(
    outputs: Tensor,
    queries: Tensor,
    key: Tensor,
    value: Tensor,
    blocks: tuple[QueryBlock, ...],
    saved: Sequence[Tensor] = (),
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of scaled queries (B, H, R, S, D), and in fp32 of keys and values (B, H, S, D), from those of the output (B, H, R, S, D).

    Attention weights that are not `saved` are computed again.
    """
    of_queries = torch.empty_like(queries)
    of_keys, of_values = (torch.zeros_like(part, dtype=torch.float32) for part in (key, value))
    for number, (block, some) in enumerate(_pieces(blocks, queries)):
        keys, values = _seen(key[some], block), _seen(value[some], block)
        asking, output = _queries(queries[some], block), _queries(outputs[some], block)
        weights = saved[number] if saved else _weights(asking, keys, block, some)
        _add(of_values[some], torch.bmm(weights.transpose(1, 2), output), block)
        scores = torch.bmm(output, values.transpose(1, 2))
        scores = torch._softmax_backward_data(scores, weights, -1, weights.dtype)
        part = of_queries[some, :, :, block.first : block.last]
        part.copy_(torch.bmm(scores, keys).view(part.shape))
        _add(of_keys[some], torch.bmm(scores.transpose(1, 2), asking), block)
    return of_queries, of_keys, of_values


def _pieces(blocks: tuple[QueryBlock, ...], queries: Tensor) -> Iterator[tuple[QueryBlock, slice]]:
    """Every block with slices of the rows, whose scores fit the processor's cache."""
    per_place = queries.shape[1] * queries.shape[2]
    for block in blocks:
        seen = block.whole + block.hidden.shape[-1]
        step = max(_AT_ONCE // (per_place * (block.last - block.first) * seen), 1)
        for first in range(0, len(queries), step):
            yield block, slice(first, first + step)


def _queries(queries: Tensor, block: QueryBlock) -> Tensor:
    """A block's queries (B * H, R * its places, D)."""
    return queries[:, :, :, block.first : block.last].flatten(2, 3).flatten(0, 1)


def _seen(states: Tensor, block: QueryBlock) -> Tensor:
    """Keys or values that a block sees (B * H, places, D)."""
    parts = [states[:, :, first:last] for first, last in block.seen]
    return (parts[0] if len(parts) == 1 else torch.cat(parts, dim=2)).flatten(0, 1)


def _weights(queries: Tensor, keys: Tensor, block: QueryBlock, some: slice) -> Tensor:
    """Attention weights (B * H, R * places, seen places) of scaled queries."""
    scores = torch.bmm(queries, keys.transpose(1, 2))
    hidden = block.hidden[some].unsqueeze(1)
    by_place = scores.view(len(hidden), -1, hidden.shape[2], scores.shape[-1])
    by_place[..., block.whole :].masked_fill_(hidden, float("-inf"))
    return scores.softmax(dim=-1)


def _add(total: Tensor, gradient: Tensor, block: QueryBlock) -> None:
    """Add the gradient of the seen places to that of all places (B, H, S, D)."""
    parts, begin = gradient.view(*total.shape[:2], -1, total.shape[-1]), 0
    for first, last in block.seen:
        total[:, :, first:last] += parts[:, :, begin : begin + last - first].to(total.dtype)
        begin += last - first


BLOCK = 128
"""Places of a block."""
_VARIANTS = 256
"""Compilations of the kernel in a process: each width, with and without gradients, of each number format and number of heads."""
ATTENTION = "sdpa"
"""The transformers attention implementation that accepts block masks."""


def row_width(size: int) -> int:
    """The width to which a row of this size is padded: 128, 256, 384, 512, then a power of two or three quarters of one.

    FlexAttention is compiled for each width, so that these are few: 12 up to 8,192 places.
    """
    power = max(1 << (size - 1).bit_length(), BLOCK)
    three_quarters = 3 * power // 4
    return three_quarters if size <= three_quarters and three_quarters % BLOCK == 0 else power


def tree_mask(ends: Tensor, dtype: torch.dtype) -> Tensor:
    """Additive mask (B, 1, S, S), 0 if a place (row) sees another (column), from `ends` (B, S)."""
    order = torch.arange(ends.shape[1], device=ends.device)
    seen = (order.unsqueeze(1) >= order) & (order.unsqueeze(1) < ends.unsqueeze(1))
    mask = torch.zeros(seen.shape, dtype=dtype, device=ends.device)
    return mask.masked_fill_(~seen, torch.finfo(dtype).min).unsqueeze(1)


def tree_block_mask(ends: Tensor) -> BlockMask:
    """The mask of rows with `ends` (B, S), on their device."""
    width = ends.shape[1]
    starts = torch.arange(0, width, BLOCK, device=ends.device)
    blocks = pad(ends, (0, len(starts) * BLOCK - width)).unflatten(1, (-1, BLOCK))
    latest, earliest = blocks.amax(-1).unsqueeze(1), blocks.amin(-1).unsqueeze(1)
    rows, columns = starts.unsqueeze(1), starts
    some = (rows + BLOCK > columns) & (rows < latest)
    whole = (rows >= columns + BLOCK - 1) & (rows + BLOCK <= earliest)
    return BlockMask.from_kv_blocks(
        *_ordered(some & ~whole),
        *_ordered(whole),
        BLOCK_SIZE=BLOCK,
        mask_mod=_sees(ends),
        seq_lengths=(width, width),
    )


def attend(module: Any, query: Tensor, key: Tensor, value: Tensor, mask: Any, **more: Any) -> Any:
    """Attention (B, S, H, D): FlexAttention or tree attention if the mask consists of blocks, and torch's otherwise.

    Raises LearnerFailure if FlexAttention would run without its compiled kernel, with all scores in memory.
    """
    if not isinstance(mask, (TreeMask, BlockMask)):
        return _original_attention(module, query, key, value, mask, **more)
    return _attend_blocks(query, key, value, mask, more.get("scaling")), None


@torch.compiler.disable  # type: ignore[untyped-decorator]  # a compiled layer calls it; its kernel is compiled by itself
def _attend_blocks(query: Tensor, key: Tensor, value: Tensor, mask: Any, scale: float | None) -> Tensor:
    if isinstance(mask, TreeMask):
        attended: Tensor = tree_attention(query, key, value, mask, scale or query.shape[-1] ** -0.5)
        return attended.transpose(1, 2).contiguous()
    shared_heads = key.shape[1] < query.shape[1]
    try:
        attended = _kernel(query.device.type)(
            query, key, value, block_mask=mask, scale=scale, enable_gqa=shared_heads
        )
    except FailOnRecompileLimitHit as error:
        raise LearnerFailure(
            f"FlexAttention was compiled for {compilations()} shapes in this process, and {tuple(query.shape)} is one more; set "
            'learner.packed_attention = "mask", or train fewer policies in one process'
        ) from error
    return attended.transpose(1, 2).contiguous()


def _sees(ends: Tensor) -> Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]:
    """The function that decides for every pair of places."""

    def sees(row: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
        return (query >= key) & (query < ends[row, key])

    return sees


def _ordered(selected: Tensor) -> tuple[Tensor, Tensor]:
    """Numbers of selected column blocks (B, 1, blocks), and their indices first (B, 1, blocks, blocks)."""
    order = selected.long().argsort(dim=-1, descending=True, stable=True)
    return selected.sum(-1).int().unsqueeze(1), order.int().unsqueeze(1)


@cache
def _kernel(device: str) -> Any:
    """The kernel of a type of device: compiled on a GPU, torch's own computation on the CPU."""
    return compiled_kernel(lookup_backend("inductor")) if device == "cuda" else flex_attention


def raise_limits() -> None:
    """Let torch compile code for many shapes, and report an error instead of running uncompiled code beyond that."""
    dynamo.recompile_limit = max(dynamo.recompile_limit, _VARIANTS)
    dynamo.accumulated_recompile_limit = max(dynamo.accumulated_recompile_limit, 2 * _VARIANTS)
    dynamo.fail_on_recompile_limit_hit = True


def compiled_kernel(compiler: Callable[..., Any]) -> Any:
    """FlexAttention, compiled for each shape by a compiler of torch.compile. It never falls back to uncompiled code."""
    raise_limits()

    def counted(graph: Any, inputs: Any) -> Any:
        _compilations.append(tuple(inputs[0].shape))
        return compiler(graph, inputs)

    return torch.compile(flex_attention, backend=counted, dynamic=False)


_compilations: list[tuple[int, ...]] = []


def compilations() -> int:
    """Number of kernels that this process has compiled for packed rows."""
    return len(_compilations)


_original_attention: Any = ALL_ATTENTION_FUNCTIONS[ATTENTION]
AttentionInterface.register(ATTENTION, attend)
