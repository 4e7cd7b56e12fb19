"""Weights on their way from an update worker to rollout workers.

Through the object store: numpy arrays, which readers map without a copy. Publication copies the weights twice, into the object store
and from there into the model. Tied weights are stored once. bf16, which numpy lacks, is stored as raw 16-bit views.

By broadcast: WeightGroup is a process group of torch.distributed, NCCL between GPUs, gloo between CPUs. A version is a header and
buckets of bytes: small weights are joined in buckets, larger ones are sent from their own memory. Receivers know the layout from their
own model; the header has its digest. The group is separate from that of several update workers
(training_core.llm.learning.processes).
"""

import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from hashlib import sha256
from math import prod
from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor
from torch._C._distributed_c10d import (
    PrefixStore,
    TCPStore,
)  # torch.distributed does not export them to type checkers

from workers.protocol import Address, TransferFailure

BUCKET_BYTES = 64 * 2**20
"""Weights below this size are joined in buckets of at most this size."""
LONGEST = timedelta(seconds=120)
"""Maximum duration of the connection and of the broadcast of one bucket. Death of a member usually ends them at once."""
_ALIGNMENT = 16
"""Bytes to which weights in a bucket are aligned."""
_ROOM = 1.2
"""Free memory of a GPU that received weights need there, relative to their size; otherwise they are stored on the host."""
Bucket = list[tuple[str, torch.dtype, tuple[int, ...]]]


@dataclass(frozen=True)
class Layout:
    """Names, types and shapes of the distinct weights in the order in which they are sent, and the tied names."""

    weights: tuple[tuple[str, torch.dtype, tuple[int, ...]], ...]
    tied: tuple[tuple[str, str], ...]

    @property
    def digest(self) -> int:
        """A number that differs for other layouts."""
        return int.from_bytes(sha256(repr((self.weights, self.tied)).encode()).digest()[:7])

    @property
    def size(self) -> int:
        """Bytes of all distinct weights."""
        return sum(prod(shape) * dtype.itemsize for _, dtype, shape in self.weights)


def layout_of(weights: Mapping[str, Tensor]) -> Layout:
    """The layout of weights by name."""
    distinct, tied = untied(weights)
    return Layout(
        tuple((name, tensor.dtype, tuple(tensor.shape)) for name, tensor in distinct.items()),
        tuple(tied.items()),
    )


def open_store(host: str) -> TCPStore:
    """The store at which a group's members meet, in this process, at a free port."""
    return TCPStore(host, 0, is_master=True, wait_for_workers=False, timeout=LONGEST)


class WeightGroup:
    """A member of the group; the sender has rank 0. Raises TransferFailure if the members do not connect."""

    def __init__(self, store: TCPStore, rank: int, size: int, device: torch.device) -> None:
        self._device = device
        try:
            self._group = _process_group(PrefixStore("weights", store), rank, size, device)
        except RuntimeError as error:
            raise _failure(error) from error

    @classmethod
    def join(cls, address: Address, rank: int, size: int, device: torch.device) -> "WeightGroup":
        """Connect to the sender's store. Raises TransferFailure."""
        try:
            store = TCPStore(*address, is_master=False, timeout=LONGEST)
        except RuntimeError as error:
            raise _failure(error) from error
        return cls(store, rank, size, device)

    def send(self, weights: Mapping[str, Tensor], version: int) -> None:
        """Broadcast a version. Raises TransferFailure, after which the group is closed."""
        layout, distinct = layout_of(weights), untied(weights)[0]
        with self._closed_on_failure():
            self._broadcast(torch.tensor([version, layout.digest], device=self._device))
            for names in _buckets(layout):
                tensors = [distinct[name].detach().to(self._device).contiguous() for name, _, _ in names]
                self._broadcast(_bytes(tensors[0]) if len(names) == 1 else _joined(tensors))

    def receive(self, layout: Layout) -> tuple[int, dict[str, Tensor]]:
        """Wait for a broadcast. Returns the version, and tensors of their own memory by name. Raises TransferFailure, after which
        the group is closed.
        """
        with self._closed_on_failure():
            header = torch.zeros(2, dtype=torch.int64, device=self._device)
            self._broadcast(header)
            version, digest = header.tolist()
            if digest != layout.digest:
                raise TransferFailure("the update worker's weights have other names, types or shapes")
            received = self._receive_buckets(layout)
        return version, received | {name: received[same] for name, same in layout.tied}

    def close(self) -> None:
        """Disconnect: the other members' broadcasts fail."""
        group, self._group = self._group, None
        if group is not None:
            group.abort()

    @contextmanager
    def _closed_on_failure(self) -> Iterator[None]:
        """Close the group after an error, so that no other member waits for this one. Raises TransferFailure."""
        try:
            yield
        except RuntimeError as error:
            self.close()
            raise _failure(error) from error
        except TransferFailure:
            self.close()
            raise

    def _receive_buckets(self, layout: Layout) -> dict[str, Tensor]:
        home = self._home(layout.size)
        received: dict[str, Tensor] = {}
        for bucket in _buckets(layout):
            flat = torch.empty(_size(bucket), dtype=torch.uint8, device=self._device)
            self._broadcast(flat)
            received |= _separate(flat.to(home), bucket)
        return received

    def _home(self, size: int) -> torch.device:
        """Where received weights are stored until they are loaded: the host if the GPU has no room."""
        if self._device.type == "cuda" and torch.cuda.mem_get_info(self._device)[0] < _ROOM * size:
            return torch.device("cpu")
        return self._device

    def _broadcast(self, tensor: Tensor) -> None:
        group = self._group
        if group is None:
            raise TransferFailure("the process group is closed")
        group.broadcast(tensor, 0).wait()
        if self._device.type == "cuda":
            torch.cuda.synchronize(self._device)


def _process_group(store: PrefixStore, rank: int, size: int, device: torch.device) -> Any:
    if device.type == "cuda":
        from torch.distributed import ProcessGroupNCCL

        options = ProcessGroupNCCL.Options()
        options._timeout = LONGEST
        return ProcessGroupNCCL(store, rank, size, options)
    from torch.distributed import ProcessGroupGloo

    return ProcessGroupGloo(store, rank, size, LONGEST)


def _buckets(layout: Layout) -> Iterator[Bucket]:
    """The weights in order: consecutive small ones together, large ones alone."""
    bucket: Bucket = []
    for item in layout.weights:
        if bucket and _size([*bucket, item]) > BUCKET_BYTES:
            yield bucket
            bucket = []
        bucket.append(item)
    if bucket:
        yield bucket


def _size(bucket: Bucket) -> int:
    """Bytes of a bucket: those of a single weight, or with each weight aligned."""
    sizes = [prod(shape) * dtype.itemsize for _, dtype, shape in bucket]
    return sizes[0] if len(sizes) == 1 else sum(map(_aligned, sizes))


def _aligned(size: int) -> int:
    return -(-size // _ALIGNMENT) * _ALIGNMENT


def _bytes(tensor: Tensor) -> Tensor:
    return tensor.reshape(-1).view(torch.uint8)


def _joined(tensors: Sequence[Tensor]) -> Tensor:
    """The bytes of several tensors, each aligned, in one tensor."""
    parts = [_bytes(tensor) for tensor in tensors]
    flat = torch.zeros(sum(_aligned(len(part)) for part in parts), dtype=torch.uint8, device=parts[0].device)
    start = 0
    for part in parts:
        flat[start : start + len(part)] = part
        start += _aligned(len(part))
    return flat


def _separate(flat: Tensor, bucket: Bucket) -> dict[str, Tensor]:
    """The weights in a bucket's bytes."""
    weights: dict[str, Tensor] = {}
    start = 0
    for name, dtype, shape in bucket:
        size = prod(shape) * dtype.itemsize
        weights[name] = flat[start : start + size].view(dtype).reshape(shape)
        start += _aligned(size)
    return weights


def _failure(error: RuntimeError) -> TransferFailure:
    first = (str(error).strip() or type(error).__name__).splitlines()[0]
    return TransferFailure(f"the weights could not be broadcast: {first}")


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
