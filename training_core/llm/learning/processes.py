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
        loads, dealt = [0] * self.size, set()
        talks = [
            (max(tokens_of(groups[index]) for index in talk), talk) for talk in conversations(groups, part)
        ]
        for tokens, talk in sorted(talks, key=lambda item: (-item[0], item[1][0])):
            lightest = loads.index(min(loads))
            loads[lightest] += tokens
            if lightest == self.rank:
                dealt.update(talk)
        return [index for index in part if index in dealt]

    def add_up(self, tensor: Tensor, how: Literal["sum", "max"] = "sum") -> Tensor:
        """The sum (or largest) over all processes, in place; equal in all of them to the last bit."""
        if self.size > 1:
            operation = distributed.ReduceOp.SUM if how == "sum" else distributed.ReduceOp.MAX
            distributed.all_reduce(tensor, operation)
        return tensor

    def most(self, number: int, device: torch.device) -> int:
        """The largest of the processes' numbers."""
        return int(self.add_up(torch.tensor(number, device=device), "max"))


ALONE = Processes()


def tokens_of(group: Group) -> int:
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
