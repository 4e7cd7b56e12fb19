"""Counts what torch.compile compiles."""

from collections.abc import Callable
from typing import Any

import torch


def unchanged(graph: Any, inputs: Any) -> Any:
    """A compiler that compiles nothing."""
    return graph.forward


class Counter:
    """A compiler that counts its graphs."""

    def __init__(self, compiler: Callable[[Any, Any], Any] = unchanged) -> None:
        torch.compiler.reset()
        self._compiler = compiler
        self.graphs = 0

    def __call__(self, graph: Any, inputs: Any) -> Any:
        self.graphs += 1
        return self._compiler(graph, inputs)
