"""Packs weights for the transfer from an update worker to rollout workers.

Weights are stored in the object store as numpy arrays, which readers map without a copy. bf16, which numpy lacks,
is stored as raw 16-bit views.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray


@dataclass(frozen=True)
class PackedWeights:
    """One version of a policy's weights as numpy arrays."""

    version: int
    arrays: dict[str, NDArray[Any]]
    bf16: frozenset[str]
    """Names of arrays that are 16-bit views of bfloat16."""


def pack(weights: Mapping[str, torch.Tensor], version: int) -> PackedWeights:
    """Convert tensors to arrays on the CPU (without a copy if they are on the CPU)."""
    arrays: dict[str, NDArray[Any]] = {}
    bf16: set[str] = set()
    for name, tensor in weights.items():
        plain = tensor.detach().cpu().contiguous()
        if plain.dtype == torch.bfloat16:
            bf16.add(name)
            plain = plain.view(torch.int16)
        arrays[name] = plain.numpy()
    return PackedWeights(version, arrays, frozenset(bf16))


def unpack(packed: PackedWeights) -> dict[str, torch.Tensor]:
    """Convert arrays to tensors. They are copies, because the object store's arrays are read-only."""
    return {name: _tensor(array, name in packed.bf16) for name, array in packed.arrays.items()}


def _tensor(array: NDArray[Any], bf16: bool) -> torch.Tensor:
    tensor = torch.from_numpy(np.array(array))
    return tensor.view(torch.bfloat16) if bf16 else tensor
