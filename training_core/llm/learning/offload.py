"""Host memory for tensors that a device does not need for a while, as FSDP frees its shards: the storage on the device is
released and allocated again, so that the tensor objects, and what refers to them, stay the same.

On a GPU the host's copy is pinned, and is made on a stream of its own: the device computes on meanwhile. The bits do not change.
"""

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor


class HostCopies:
    """The contents of tensors that have no memory on their device."""

    def __init__(self) -> None:
        self._copies: dict[int, tuple[Tensor, Tensor]] = {}
        """By the tensor's id: the tensor, and its contents on the host."""
        self._buffers: dict[int, Tensor] = {}
        """Host memory of earlier times, by the tensor's id: pinning takes long."""
        self._stream: Any = None

    def contents(self, tensor: Tensor) -> Tensor:
        """The tensor, or its contents on the host."""
        if id(tensor) not in self._copies:
            return tensor
        self._wait()
        return self._copies[id(tensor)][1]

    def take(self, tensors: Iterable[Tensor]) -> None:
        """Copy the tensors to the host and release their memory on the device."""
        whole = [tensor for tensor in tensors if id(tensor) not in self._copies]
        buffers = {id(tensor): self._buffers.get(id(tensor)) for tensor in whole}
        self._buffers = {}
        for tensor in whole:
            buffer = buffers[id(tensor)]
            if buffer is None or buffer.shape != tensor.shape or buffer.dtype != tensor.dtype:
                buffer = torch.empty(
                    tensor.shape, dtype=tensor.dtype, device="cpu", pin_memory=tensor.device.type == "cuda"
                )
            self._copy(buffer, tensor)
            self._copies[id(tensor)] = tensor, buffer
            tensor.untyped_storage().resize_(0)

    def give_back(self) -> None:
        """Allocate the memory of all tensors on their device again, with their contents."""
        self._wait()
        for tensor, buffer in self._copies.values():
            tensor.untyped_storage().resize_(buffer.numel() * buffer.element_size())
            with torch.no_grad():
                tensor.copy_(buffer, non_blocking=True)
            self._buffers[id(tensor)] = buffer
        self._copies = {}

    def _copy(self, buffer: Tensor, tensor: Tensor) -> None:
        if tensor.device.type != "cuda":
            buffer.copy_(tensor.detach())
            return
        if self._stream is None:
            self._stream = torch.cuda.Stream(tensor.device)
        self._stream.wait_stream(torch.cuda.current_stream(tensor.device))
        with torch.cuda.stream(self._stream):
            buffer.copy_(tensor.detach(), non_blocking=True)
        tensor.record_stream(self._stream)  # the memory is not used again before the copy has ended

    def _wait(self) -> None:
        if self._stream is not None:
            self._stream.synchronize()
