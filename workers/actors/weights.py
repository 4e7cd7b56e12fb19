"""Packs weights for the transfer from an update worker to rollout workers.

Weights are stored in the object store as numpy arrays, which readers map without a copy: publication copies the weights twice, into the
object store and from there into the model. Tied weights are stored once. bf16, which numpy lacks, is stored as raw 16-bit views.
"""

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from numpy.typing import NDArray


@dataclass(frozen=True)
class PackedWeights:
    """One version of a policy's weights as numpy arrays."""

    version: int
    arrays: dict[str, NDArray[Any]]
    bf16: frozenset[str]
    """Names of arrays that are 16-bit views of bfloat16."""
    tied: dict[str, str] = field(default_factory=dict)
    """Names without an array of their own -> the name with the same weights."""


def pack(weights: Mapping[str, torch.Tensor], version: int) -> PackedWeights:
    """Convert tensors to arrays on the CPU (without a copy if they are on the CPU)."""
    arrays: dict[str, NDArray[Any]] = {}
    bf16: set[str] = set()
    distinct, tied = untied(weights)
    for name, tensor in distinct.items():
        plain = tensor.detach().cpu().contiguous()
        if plain.dtype == torch.bfloat16:
            bf16.add(name)
            plain = plain.view(torch.int16)
        arrays[name] = plain.numpy()
    return PackedWeights(version, arrays, frozenset(bf16), tied)


def unpack(packed: PackedWeights) -> dict[str, torch.Tensor]:
    """Convert arrays to tensors without a copy. They must only be read: other workers map the same arrays."""
    with warnings.catch_warnings():  # torch warns once per process of an array that may only be read
        warnings.filterwarnings("ignore", message="The given NumPy array is not writable")
        tensors = {name: _tensor(array, name in packed.bf16) for name, array in packed.arrays.items()}
    return tensors | {name: tensors[same] for name, same in packed.tied.items()}


def untied(weights: Mapping[str, torch.Tensor]) -> tuple[dict[str, torch.Tensor], dict[str, str]]:
    """The weights with tied ones once, by their first name; and the first name of each of the others."""
    first: dict[tuple[Any, ...], str] = {}
    distinct: dict[str, torch.Tensor] = {}
    tied: dict[str, str] = {}
    for name, tensor in weights.items():
        memory = (tensor.data_ptr(), tensor.dtype, tensor.shape, tensor.stride())
        same = first.setdefault(memory, name) if tensor.numel() else name
        if same == name:
            distinct[name] = tensor
        else:
            tied[name] = same
    return distinct, tied


def _tensor(array: NDArray[Any], bf16: bool) -> torch.Tensor:
    tensor = torch.from_numpy(array)
    return tensor.view(torch.bfloat16) if bf16 else tensor
