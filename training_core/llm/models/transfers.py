"""Copies between the host and a device that neither waits for.

A copy from ordinary memory, and every reading of a number, waits until a GPU has computed all that was started before:
while the host waits it starts nothing, and then the GPU has nothing to do. Copies from pinned memory are one more piece
of work in the GPU's order. On the CPU nothing is copied.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor


def free_memory(device: torch.device) -> int:
    """Bytes of a GPU that tensors may use: those that no process has, and those that torch has reserved here without use."""
    unused = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    return int(torch.cuda.mem_get_info(device)[0]) + unused


def to_device(array: NDArray[Any], device: torch.device) -> Tensor:
    """The array on a device."""
    tensor = torch.from_numpy(array)
    return tensor.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else tensor.to(device)


def all_to_device(arrays: Sequence[NDArray[np.int64]], device: torch.device) -> list[Tensor]:
    """Several arrays on a device, by one copy."""
    if device.type == "cpu":
        return [torch.from_numpy(array) for array in arrays]
    whole = to_device(np.concatenate([array.ravel() for array in arrays]), device)
    parts = whole.split([array.size for array in arrays])
    return [part.view(array.shape) for part, array in zip(parts, arrays, strict=True)]


class Reading:
    """Numbers of a device that the host reads later: other work may be started in between."""

    def __init__(self, numbers: Tensor) -> None:
        self._numbers, self._copied = numbers, None
        if numbers.is_cuda:
            self._numbers = torch.empty(numbers.shape, dtype=numbers.dtype, pin_memory=True)
            self._numbers.copy_(numbers, non_blocking=True)
            copied: Any = torch.cuda.Event()
            copied.record()
            self._copied = copied

    def wait(self) -> NDArray[Any]:
        """The numbers, when they are computed. Work that was started after this reading continues."""
        if self._copied is not None:
            self._copied.synchronize()
        result: NDArray[Any] = self._numbers.cpu().numpy()
        return result
