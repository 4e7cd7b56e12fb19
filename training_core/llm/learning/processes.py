"""Several processes that update one policy together: each computes a share of every minibatch, and the results are
summed.

They communicate over torch.distributed: gloo between CPUs, NCCL between GPUs.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, distributed

from training_core.llm.learning.packing import conversations
from training_core.types import Group


@dataclass(frozen=True)
class Processes:
    """Rank of this process and number of processes. A single process needs no `join`."""

    rank: int = 0
    size: int = 1

    def share(self, part: Sequence[int], groups: Sequence[Group]) -> list[int]:
        """This process's groups of a minibatch (indices of `groups`), in their order, with a conversation's groups
        together.

        The largest remaining group goes to the process with the fewest tokens: every process computes the same
        assignment without communication.
        """
        if self.size == 1:
            return list(part)
        loads, assigned = [0] * self.size, set()
        members = [
            (max(group_tokens(groups[index]) for index in indices), indices)
            for indices in conversations(groups, part)
        ]
        for tokens, indices in sorted(members, key=lambda item: (-item[0], item[1][0])):
            smallest = loads.index(min(loads))
            loads[smallest] += tokens
            if smallest == self.rank:
                assigned.update(indices)
        return [index for index in part if index in assigned]

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


def group_tokens(group: Group) -> int:
    """The number of tokens of a group: its prompt and all its answers."""
    return len(group.prompt_ids) + sum(len(answer.token_ids) for answer in group.answers)


def join(rank: int, size: int, address: str, port: int, *, gpu: bool) -> Processes:
    """Connect to the other processes at the first one's address. Raises RuntimeError if one does not connect."""
    if not distributed.is_initialized():
        store = f"tcp://{address}:{port}"
        distributed.init_process_group(
            "nccl" if gpu else "gloo", init_method=store, rank=rank, world_size=size
        )
    return Processes(rank, size)
