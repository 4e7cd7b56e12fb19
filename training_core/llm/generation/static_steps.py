"""Decoding steps of fixed shapes, which a GPU captures once and replays (CUDA graphs).

N nodes, G rows, Q maximum nodes of a row, S columns of the store. For small steps, launching kernels one by one costs
more than running them; a graph launches all of them together, but reads and writes the same memory each time.
Therefore a step's inputs are padded to one of a few sizes and copied into persistent buffers. Without a GPU the same
steps run without capture.

The capture itself has not been run on a GPU yet (`python -m tests.gpu engine` compares it); the code around it is tested on the CPU.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any

import torch
from torch import Tensor

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
