"""Rows for the learner: a group's prompt and all its responses in one row, or one response a row.

B rows, S padded length, T response tokens in all. In a packed row [prompt, r1 .. rK] a response sees the prompt and
itself only, and its positions go on from the prompt's, so that every logprob equals the unpacked one.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from training_core.types import Group


@dataclass(frozen=True)
class Row:
    """One row: where it comes from and its tokens. Segment 0 is the prompt, segment k the k-th response of the row."""

    group: int
    answers: tuple[int, ...]
    """Indices of the group's answers in this row, in order."""
    tokens: list[int]
    positions: list[int]
    segments: list[int]
    sources: list[int]
    """Per response token: the place in the row whose logits predict it."""
    targets: list[int]


@dataclass(frozen=True)
class Batch:
    """Rows as tensors."""

    token_ids: Tensor
    """(B, S)"""
    positions: Tensor
    """(B, S)"""
    mask: Tensor
    """(B, S) 1 for tokens; or (B, 1, S, S) additive, 0 where a place may be seen."""
    rows: Tensor
    """(T,) row of each response token."""
    sources: Tensor
    """(T,) place in that row whose logits predict it."""
    targets: Tensor
    """(T,) the token itself."""


def group_rows(index: int, group: Group, *, packed: bool) -> list[Row]:
    """The rows of one group."""
    everything = tuple(range(len(group.answers)))
    parts = [everything] if packed else [(answer,) for answer in everything]
    return [_row(index, group, part) for part in parts]


def _row(index: int, group: Group, part: tuple[int, ...]) -> Row:
    prompt = len(group.prompt_ids)
    row = Row(index, part, list(group.prompt_ids), list(range(prompt)), [0] * prompt, [], [])
    for segment, answer in enumerate(part, start=1):
        tokens = group.answers[answer].token_ids
        begin = len(row.tokens)
        row.tokens.extend(tokens)
        row.positions.extend(range(prompt, prompt + len(tokens)))
        row.segments.extend([segment] * len(tokens))
        row.sources.extend([prompt - 1, *range(begin, begin + len(tokens) - 1)])
        row.targets.extend(tokens)
    return row


def micro_batches(rows: Sequence[Row], limit: int) -> list[list[Row]]:
    """Rows by length in batches of at most `limit` tokens, padding included; a longer row goes alone."""
    batches: list[list[Row]] = []
    width = 0
    for row in sorted(rows, key=lambda row: len(row.tokens)):
        width = len(row.tokens)
        if not batches or width * (len(batches[-1]) + 1) > limit:
            batches.append([])
        batches[-1].append(row)
    return batches


def collate(rows: Sequence[Row], pad: int, *, packed: bool, device: torch.device, dtype: torch.dtype) -> Batch:
    """Rows padded on the right."""
    width = max(len(row.tokens) for row in rows)
    ids = np.full((len(rows), width), pad, dtype=np.int64)
    positions = np.zeros((len(rows), width), dtype=np.int64)
    segments = np.full((len(rows), width), -1, dtype=np.int64)
    for place, row in enumerate(rows):
        length = len(row.tokens)
        ids[place, :length] = row.tokens
        positions[place, :length] = row.positions
        segments[place, :length] = row.segments
    segment_tensor = torch.from_numpy(segments).to(device)
    mask = tree_mask(segment_tensor, dtype) if packed else (segment_tensor >= 0).long()
    counts = [len(row.targets) for row in rows]
    return Batch(
        token_ids=torch.from_numpy(ids).to(device),
        positions=torch.from_numpy(positions).to(device),
        mask=mask,
        rows=torch.from_numpy(np.repeat(np.arange(len(rows)), counts)).to(device),
        sources=torch.tensor([source for row in rows for source in row.sources], device=device),
        targets=torch.tensor([target for row in rows for target in row.targets], device=device),
    )


def tree_mask(segments: Tensor, dtype: torch.dtype) -> Tensor:
    """Additive mask (B, 1, S, S) from segments (B, S): causal, and only the prompt (0) or one's own segment.

    Padding (-1) sees padding, so that no row of the softmax is empty.
    """
    own = segments.unsqueeze(2) == segments.unsqueeze(1)
    prompt = (segments == 0).unsqueeze(1) & (segments >= 0).unsqueeze(2)
    causal = torch.ones(segments.shape[1], segments.shape[1], dtype=torch.bool, device=segments.device).tril()
    seen = (own | prompt) & causal
    mask = torch.zeros(seen.shape, dtype=dtype, device=segments.device)
    return mask.masked_fill(~seen, torch.finfo(dtype).min).unsqueeze(1)
