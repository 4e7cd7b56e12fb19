"""The optimiser's step: AdamW on fp32 weights, independent of the model's precision; its gradients are the sum of those
of several processes, each of which computes a share of every minibatch.

bf16 keeps 8 bits of a weight: an update smaller than about 0.4% of it would be lost to rounding. Therefore a model in
bf16 is trained through an fp32 copy of its weights ("master weights", arXiv 1710.03740, section 3.1). The same holds
for fp16, which loses gradients below 6e-8: the loss is scaled up before the backward pass and gradients down after it
(section 3.2). The scale halves when gradients overflow, and that step is skipped; it doubles after GROWTH_INTERVAL steps
without overflow.

Processes communicate over torch.distributed: gloo between CPUs, NCCL between GPUs.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, distributed, nn
from torch.nn.utils import clip_grads_with_norm_, get_total_norm

from training_core.llm.learning.learner_config import Optimisation
from training_core.llm.learning.memory import GRADIENTS_AT_ONCE

Bucket = Sequence[tuple[Tensor, Tensor]]
"""Weights of the model, each with its fp32 copy, or itself if it is in fp32."""
SEPARATOR = "/"
MASTER = "master"


INITIAL_SCALE, MIN_SCALE, MAX_SCALE = 2.0**16, 1.0, 2.0**24
"""fp16 loss scale: initial, minimum and maximum."""
GROWTH_INTERVAL = 2000
"""Steps without overflow after which the scale doubles."""


@dataclass(frozen=True)
class Processes:
    """Rank of this process and number of processes. A single process needs no `join`."""

    rank: int = 0
    size: int = 1

    def all_reduce(self, tensor: Tensor, operation_name: Literal["sum", "max"] = "sum") -> Tensor:
        """The sum (or largest) over all processes, in place; equal in all of them to the last bit."""
        if self.size > 1:
            operation = distributed.ReduceOp.SUM if operation_name == "sum" else distributed.ReduceOp.MAX
            distributed.all_reduce(tensor, operation)
        return tensor

    def largest(self, number: int, device: torch.device) -> int:
        """The largest of the processes' numbers."""
        return int(self.all_reduce(torch.tensor(number, device=device), "max"))


SINGLE_PROCESS = Processes()


def join(rank: int, size: int, address: str, port: int, *, gpu: bool) -> Processes:
    """Connect to the other processes at the first one's address. Raises RuntimeError if one does not connect."""
    if not distributed.is_initialized():
        store = f"tcp://{address}:{port}"
        distributed.init_process_group(
            "nccl" if gpu else "gloo", init_method=store, rank=rank, world_size=size
        )
    return Processes(rank, size)


def learning_rate(learner: Optimisation, iteration: int, iterations: int) -> float:
    """The learning rate of an iteration (from 1): linear warm-up, then constant, linear or cosine to the final rate."""
    if iteration <= learner.warmup_iterations:
        return learner.learning_rate * iteration / (learner.warmup_iterations + 1)
    if learner.schedule == "constant":
        return learner.learning_rate
    span = max(iterations - learner.warmup_iterations - 1, 1)
    done = min((iteration - learner.warmup_iterations - 1) / span, 1.0)
    left = 1.0 - done if learner.schedule == "linear" else 0.5 * (1.0 + math.cos(math.pi * done))
    return learner.final_learning_rate + (learner.learning_rate - learner.final_learning_rate) * left


@dataclass(frozen=True)
class OptimiserStep:
    """The result of an optimiser's step."""

    norm: float | None
    """Norm of the gradient (L2, before clipping); None if it was not finite and nothing was applied."""
    overflow: bool = False
    """The loss scale was too large for fp16 and was lowered; the next step may succeed."""


def _buckets(pairs: Bucket, processes: Processes) -> list[Bucket]:
    """Buckets of at most GRADIENTS_AT_ONCE numbers; one if there are no copies, or if several processes sum their gradients."""
    if processes.size > 1 or all(master is weight for weight, master in pairs):
        return [pairs]
    buckets: list[list[tuple[Tensor, Tensor]]] = [[]]
    size = 0
    for pair in pairs:
        size += pair[0].numel()
        if buckets[-1] and size > GRADIENTS_AT_ONCE:
            buckets.append([])
            size = pair[0].numel()
        buckets[-1].append(pair)
    return list(buckets)


class HostCopies:
    """The contents of tensors that have no memory on their device for a while, as FSDP frees its shards: the storage on the device is
    released and allocated again, so that the tensor objects, and what refers to them, stay the same.

    On a GPU the host's copy is pinned, and is made on a stream of its own: the device computes on meanwhile. The bits do not change.
    """

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


class Optimiser:
    """AdamW, gradient clipping and the fp32 copies of a model's trainable weights, if it needs them."""

    def __init__(
        self, model: nn.Module, settings: Optimisation, processes: Processes = SINGLE_PROCESS
    ) -> None:
        self.names = [name for name, weight in model.named_parameters() if weight.requires_grad]
        self.weights = [weight for weight in model.parameters() if weight.requires_grad]
        self.masters = [
            weight if weight.dtype == torch.float32 else torch.nn.Parameter(weight.detach().float())
            for weight in self.weights
        ]
        self._buckets = _buckets(list(zip(self.weights, self.masters, strict=True)), processes)
        self.processes = processes
        self.scale = INITIAL_SCALE if settings.precision == "fp16" else 1.0
        self.scaling = settings.precision == "fp16"
        self._steps_since_change = 0
        """Steps since the scale changed."""
        self.limit = settings.max_grad_norm or math.inf
        self._host = HostCopies()
        self.adamw = torch.optim.AdamW(
            self.masters,
            lr=settings.learning_rate,
            betas=settings.betas,
            weight_decay=settings.weight_decay,
            fused=True,
        )

    def rest(self) -> None:
        """Move moments and fp32 copies to the host, until `wake`. Gradients do not exist between updates."""
        moments = [item for part in self.adamw.state.values() for key, item in part.items() if key != "step"]
        self._host.take([*moments, *(master for _, master in self._copied_weights())])

    def wake(self) -> None:
        """Move them back to the device."""
        self._host.give_back()

    def prepare(self, rate: float) -> None:
        """Set the learning rate; copy weights that were changed (loaded) outside the fp32 copies."""
        for section in self.adamw.param_groups:
            section["lr"] = rate
        with torch.no_grad():
            pairs = self._copied_weights()
            changed = [(weight != master.to(weight.dtype)).any() for weight, master in pairs]
            for (weight, master), differs in zip(
                pairs, torch.stack(changed).tolist() if pairs else (), strict=True
            ):
                if differs:
                    master.copy_(weight)

    def backward(self, loss: Tensor, *, last: bool) -> None:
        """Add a micro-batch's gradients. `last`: a step follows."""
        (loss * self.scale if self.scaling else loss).backward()

    def step(self) -> OptimiserStep:
        """Clip and apply the gradients of all processes, then discard them. If they are not finite, nothing is applied.

        Gradients in fp32 of a model in bf16 or fp16 exist for one bucket of the weights at a time.
        """
        norms = []
        for bucket in self._buckets:
            gradients = self._gradients(bucket)
            norms.append(get_total_norm(gradients))
            if len(self._buckets) > 1:
                self._discard(bucket)
        norm = norms[0] if len(norms) == 1 else torch.linalg.vector_norm(torch.stack(norms))
        finite = math.isfinite(norm)
        for bucket in self._buckets if finite else ():
            if len(self._buckets) > 1:
                self._gradients(bucket)
            clip_grads_with_norm_([master for _, master in bucket], self.limit, norm)
            self.adamw.step()  # of the weights that have a gradient
            with torch.no_grad():
                for weight, master in bucket:
                    if master is not weight:
                        weight.copy_(master)
            self._discard(bucket)
        for weight, master in zip(self.weights, self.masters, strict=True):
            weight.grad = master.grad = None
        if finite:
            self._raise_scale()
        return OptimiserStep(float(norm)) if finite else OptimiserStep(None, overflow=self._lower_scale())

    def state_dict(self) -> dict[str, Tensor]:
        """AdamW's moments and step counts by the weights' names, and the fp32 copies."""
        state = self.adamw.state_dict()["state"]
        tensors = {
            f"{self.names[number]}{SEPARATOR}{key}": self._host.contents(item).contiguous()
            for number, part in state.items()
            for key, item in part.items()
        }
        for name, weight, master in zip(self.names, self.weights, self.masters, strict=True):
            if master is not weight:
                tensors[f"{name}{SEPARATOR}{MASTER}"] = self._host.contents(master).detach()
        return tensors

    def load_state_dict(self, tensors: Mapping[str, Tensor]) -> None:
        """Restore `state_dict`'s tensors. Raises KeyError or ValueError if they do not belong to these weights."""
        self.wake()
        numbers = {name: number for number, name in enumerate(self.names)}
        state: dict[int, dict[str, Tensor]] = {}
        for key, tensor in tensors.items():
            name, what = key.rsplit(SEPARATOR, 1)
            number = numbers[name]
            if what != "step" and tensor.shape != self.masters[number].shape:
                raise ValueError(
                    f"{key} has shape {tuple(tensor.shape)}, not {tuple(self.masters[number].shape)}"
                )
            if what == MASTER:
                with torch.no_grad():
                    self.masters[number].copy_(tensor)
            else:
                state.setdefault(number, {})[what] = tensor.clone()
        self.adamw.load_state_dict({"state": state, "param_groups": self.adamw.state_dict()["param_groups"]})

    def counters(self) -> dict[str, int]:
        """The state that a checkpoint stores in addition to the tensors."""
        return (
            {"loss_scale": int(self.scale), "steps_since_scale": self._steps_since_change}
            if self.scaling
            else {}
        )

    def load_counters(self, counters: Mapping[str, int]) -> None:
        """Restore `counters`, if there are any."""
        self.scale = float(counters.get("loss_scale", self.scale))
        self._steps_since_change = counters.get("steps_since_scale", 0)

    def _gradients(self, bucket: Bucket) -> list[Tensor]:
        """The gradients of a bucket's fp32 weights: those of the model, summed over all processes, without the loss scale."""
        for weight, master in bucket:
            if master is not weight:
                master.grad = weight.grad.float() if weight.grad is not None else None
        self._reduce_gradients([master for _, master in bucket])
        return [master.grad for _, master in bucket if master.grad is not None]

    def _discard(self, bucket: Bucket) -> None:
        for weight, master in bucket:
            if master is not weight:
                master.grad = None

    def _reduce_gradients(self, masters: Sequence[Tensor]) -> None:
        """Sum the gradients of all processes, as one tensor; undo the loss scale."""
        if self.processes.size > 1:
            for master in masters:
                if master.grad is None:  # this process had no share
                    master.grad = torch.zeros_like(master)
            grads = [master.grad for master in masters if master.grad is not None]
            total = self.processes.all_reduce(torch.cat([grad.flatten() for grad in grads]))
            for grad, added in zip(grads, total.split([grad.numel() for grad in grads]), strict=True):
                grad.copy_(added.view_as(grad))
        if self.scaling:
            for master in masters:
                if master.grad is not None:
                    master.grad.div_(self.scale)

    def _lower_scale(self) -> bool:
        """Lower the loss scale; False if it is not the cause."""
        if not self.scaling or self.scale <= MIN_SCALE:
            return False
        self.scale, self._steps_since_change = self.scale / 2, 0
        return True

    def _raise_scale(self) -> None:
        self._steps_since_change += 1
        if self.scaling and self._steps_since_change >= GROWTH_INTERVAL:
            self.scale, self._steps_since_change = min(self.scale * 2, MAX_SCALE), 0

    def _copied_weights(self) -> list[tuple[Tensor, Tensor]]:
        pairs = zip(self.weights, self.masters, strict=True)
        return [(weight, master) for weight, master in pairs if master is not weight]
