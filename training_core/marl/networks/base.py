"""Backbones, which map inputs to features, with or without memory.

Letters: R rows (environment x agent, agents fastest), D inputs, H features, L steps of a chunk.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor, nn

Memory = tuple[Tensor, ...]
"""State carried from step to step: tensors with the rows in dimension 0; empty without memory."""


class Backbone(nn.Module, ABC):
    """The layers between input and head."""

    features: int
    """H."""

    @property
    def has_memory(self) -> bool:
        """Whether a memory is carried from step to step."""
        return bool(self.start(1))

    @abstractmethod
    def start(self, rows: int) -> Memory:
        """The initial memory of an episode, for this many rows."""

    @abstractmethod
    def step(self, x: Tensor, memory: Memory) -> tuple[Tensor, Memory]:
        """One step of acting: inputs (R, D) -> features (R, H) and the memory after it."""

    @abstractmethod
    def sequence(self, x: Tensor, memory: Memory, begins: Tensor) -> Tensor:
        """L steps of learning: inputs (L, R, D) -> features (L, R, H), the same as step by step.

        begins (L, R): a new episode begins at this step of this row, so its memory is reset before it.
        """


def map_memory(change: Callable[..., Tensor], first: Memory, *others: Memory) -> Memory:
    """Apply `change` to the corresponding tensors of memories of one shape."""
    return tuple(change(*parts) for parts in zip(first, *others, strict=True))


def reset_memory(memory: Memory, fresh: Memory, rows: Tensor) -> Memory:
    """`memory`, with the selected rows (R,) bool replaced by those of `fresh`."""

    def chosen(old: Tensor, new: Tensor) -> Tensor:
        return torch.where(rows.view(-1, *[1] * (old.dim() - 1)), new, old)

    return map_memory(chosen, memory, fresh)


def memory_arrays(memory: Memory | None) -> dict[str, NDArray[Any]]:
    """A memory's tensors by index; empty for None and for networks without memory."""
    return {str(index): part.cpu().numpy() for index, part in enumerate(memory or ())}


def memory_of(arrays: Mapping[str, NDArray[Any]], device: torch.device) -> Memory:
    """The inverse of `memory_arrays`."""
    return tuple(torch.from_numpy(arrays[str(index)].copy()).to(device) for index in range(len(arrays)))
