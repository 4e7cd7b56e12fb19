"""Host memory for tensors that a device does not need for a while, as FSDP frees its shards: the storage on the device is
released and allocated again, so that the tensor objects, and what refers to them, stay the same.

On a GPU the host's copies are pinned, and copies in both directions are made on a stream of their own: the device computes
on meanwhile, until something needs a tensor that is being copied back. The bits do not change.
"""

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor


class Copier:
    """Makes a device's copies one after another: on a GPU on a stream of their own, on the CPU at once."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._stream: Any = torch.cuda.Stream(device) if device.type == "cuda" else None

    def copy(self, target: Tensor, source: Tensor) -> None:
        """Copy after all that the device has been asked to compute so far."""
        if self._stream is None:
            target.copy_(source)
            return
        self._stream.wait_stream(torch.cuda.current_stream(self._device))
        with torch.cuda.stream(self._stream):
            target.copy_(source, non_blocking=True)
        on_device = target if target.is_cuda else source
        on_device.record_stream(self._stream)  # its memory is not used again before the copy has ended

    def join(self) -> None:
        """Let the device's next computations follow all copies."""
        if self._stream is not None:
            torch.cuda.current_stream(self._device).wait_stream(self._stream)

    def wait(self) -> None:
        """Let the host wait for all copies."""
        if self._stream is not None:
            self._stream.synchronize()


class HostCopies:
    """The contents of tensors that have no memory on their device."""

    def __init__(self, make_copier: Callable[[torch.device], Copier] = Copier) -> None:
        self._copies: dict[int, tuple[Tensor, Tensor]] = {}
        """By the tensor's id: the tensor, and its contents on the host."""
        self._buffers: dict[int, Tensor] = {}
        """Host memory of earlier times, by the tensor's id: pinning takes long."""
        self._make_copier = make_copier
        self._copier: Copier | None = None

    def contents(self, tensor: Tensor) -> Tensor:
        """The tensor, or its contents on the host."""
        self.join()
        if id(tensor) not in self._copies:
            return tensor
        if self._copier is not None:
            self._copier.wait()
        return self._copies[id(tensor)][1]

    def take(self, tensors: Iterable[Tensor]) -> None:
        """Copy the tensors to the host and release their memory on the device."""
        self.join()
        whole = [tensor for tensor in tensors if id(tensor) not in self._copies]
        buffers = {id(tensor): self._buffers.get(id(tensor)) for tensor in whole}
        self._buffers = {}
        for tensor in whole:
            buffer = buffers[id(tensor)]
            if buffer is None or buffer.shape != tensor.shape or buffer.dtype != tensor.dtype:
                buffer = torch.empty(
                    tensor.shape, dtype=tensor.dtype, device="cpu", pin_memory=tensor.device.type == "cuda"
                )
            self._copy(buffer, tensor.detach())
            self._copies[id(tensor)] = tensor, buffer
            tensor.untyped_storage().resize_(0)

    def give_back(self) -> None:
        """Allocate the memory of all tensors on their device again, and start to copy their contents: `join` before they are used."""
        for tensor, buffer in self._copies.values():
            tensor.untyped_storage().resize_(buffer.numel() * buffer.element_size())
            self._copy(tensor.detach(), buffer)
            self._buffers[id(tensor)] = buffer
        self._copies = {}

    def join(self) -> None:
        """Let the device use the tensors once their contents have arrived."""
        if self._copier is not None:
            self._copier.join()

    def _copy(self, target: Tensor, source: Tensor) -> None:
        if self._copier is None:
            self._copier = self._make_copier(source.device)
        self._copier.copy(target, source)
