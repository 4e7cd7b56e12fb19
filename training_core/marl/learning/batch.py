"""Training data of a policy in one iteration: its rollout with advantages and returns, divided into chunks.

Letters: T steps, B environments, N agents, L steps of a chunk, G chunks (all environments' together), K columns of values.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from training_core.marl.networks.base import Memory, map_memory


@dataclass
class Chunks:
    """Samples by chunk: (G, L, ...). The fields of a minibatch are (L, G, ...), as networks read them."""

    observations: Tensor
    """(G, L, N, D)."""
    masks: Tensor | None
    """(G, L, N, A)."""
    raw: Tensor
    """(G, L, N) or (G, L, N, A)."""
    log_probs: Tensor
    """(G, L, N): at sampling time."""
    advantages: Tensor
    """(G, L, N)."""
    weights: Tensor | None
    """(G, L, N): 0 for data that is not trained on: frozen roles, and steps that are also in another chunk; None if all is trained on."""
    critic_inputs: Tensor
    """(G, L, M, C)."""
    returns: Tensor
    """(G, L, K): normalised."""
    old_values: Tensor
    """(G, L, K): normalised."""
    value_weights: Tensor | None
    """(G, L, K)."""
    begins: Tensor
    """(G, L)."""
    actor_memory: Memory
    """(G, N, ...): at the chunk's start."""
    critic_memory: Memory
    """(G, M, ...)."""

    def __len__(self) -> int:
        return len(self.begins)

    def minibatches(self, order: Tensor, size: int) -> Iterator["Chunks"]:
        """The chunks in the order of `order` (G,), in parts of about equal size, with at most `size` chunks each."""
        for piece in minibatch_rows(order, size):
            yield self._select(piece)

    def _select(self, rows: Tensor) -> "Chunks":
        def chosen(part: Any) -> Any:
            if isinstance(part, tuple):
                return map_memory(lambda tensor: tensor.index_select(0, rows).flatten(0, 1), part)
            return None if part is None else part.index_select(0, rows).transpose(0, 1)

        return Chunks(*map(chosen, vars(self).values()))


def minibatch_rows(order: Tensor, size: int) -> tuple[Tensor, ...]:
    """The order (G,) of chunks in parts of about equal size, with at most `size` chunks each."""
    return order.tensor_split(-(-len(order) // size))


def chunk_starts(steps: int, length: int) -> tuple[int, ...]:
    """Start steps of chunks of `length`; the last one overlaps the previous so that it is complete."""
    return tuple(min(start, steps - length) for start in range(0, steps, length))


def fresh_steps(steps: int, length: int) -> Tensor:
    """(chunks, L): False for steps that are also in the previous chunk."""
    starts = chunk_starts(steps, length)
    return torch.tensor(
        [[begin + t >= index * length for t in range(length)] for index, begin in enumerate(starts)]
    )


def split_into_chunks(values: Tensor, length: int) -> Tensor:
    """(T, B, ...) -> (G, L, ...); chunks of the same steps are adjacent, environment by environment."""
    if length == 1:
        return values.flatten(0, 1).unsqueeze(1)
    times = torch.tensor([[begin + t for t in range(length)] for begin in chunk_starts(len(values), length)])
    return values[times].transpose(1, 2).flatten(0, 1)


def memories_at_starts(memories: Mapping[int, Memory], starts: tuple[int, ...], agents: int) -> Memory:
    """Memories (B x agents, ...) stored at every start -> (G, agents, ...)."""
    if not memories:
        return ()
    joined = map_memory(lambda *parts: torch.cat(parts), *[memories[start] for start in starts])
    return map_memory(lambda part: part.unflatten(0, (-1, agents)), joined)
