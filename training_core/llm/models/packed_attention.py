"""FlexAttention for packed rows: a mask by blocks of places, in place of a number for every pair of places.

B rows, S places, H heads, D head size. `ends` (B, S): place j is seen by the places j, j + 1, ..., ends[j] - 1 (see
learning/packing.py). A kernel skips blocks without visible places, and needs no mask for blocks that are visible as a
whole (Dong et al. 2024, "Flex Attention", arXiv 2412.05496).

A model whose attention is torch's scaled dot product accepts such a mask as its attention mask: the mask itself selects
the kernel, so that activation checkpointing repeats the same computation. On the CPU, torch has no gradients of
FlexAttention; there, `tree_attention.py` takes its place.
"""

from collections.abc import Callable
from functools import cache
from typing import Any

import torch
from torch import Tensor
from torch.nn.attention.flex_attention import BlockMask, flex_attention
from torch.nn.functional import pad
from transformers import AttentionInterface
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from training_core.llm.models.tree_attention import TreeMask, tree_attention

BLOCK = 128
"""Places of a block."""
MULTIPLE = 16
"""Rows are padded to a multiple of this, so that shapes are few and aligned."""
ATTENTION = "sdpa"
"""The transformers attention implementation that accepts block masks."""


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
    """Attention (B, S, H, D): FlexAttention or tree attention if the mask consists of blocks, and torch's otherwise."""
    if isinstance(mask, TreeMask):
        scale = more.get("scaling") or query.shape[-1] ** -0.5
        return tree_attention(query, key, value, mask, scale).transpose(1, 2).contiguous(), None
    if not isinstance(mask, BlockMask):
        return _original_attention(module, query, key, value, mask, **more)
    shared_heads = key.shape[1] < query.shape[1]
    attended = _kernel(query.device.type)(
        query, key, value, block_mask=mask, scale=more.get("scaling"), enable_gqa=shared_heads
    )
    return attended.transpose(1, 2).contiguous(), None


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
    return torch.compile(flex_attention) if device == "cuda" else flex_attention


_original_attention: Any = ALL_ATTENTION_FUNCTIONS[ATTENTION]
AttentionInterface.register(ATTENTION, attend)
