"""A network for N agents: identity, backbone, head.

Letters: B environments, N agents, D inputs, O outputs, L steps of a chunk.
"""

from typing import Protocol

import torch
from torch import Tensor, nn

from training_core.fast_linear import use_fast_products
from training_core.importing import resolve
from training_core.marl.environments.base import Pictures
from training_core.marl.networks.base import Backbone, Memory, map_memory
from training_core.marl.networks.config import Network
from training_core.marl.networks.layers import linear
from training_core.marl.networks.registry import NETWORKS

PACKAGE = __name__.rpartition(".")[0]


def make_backbone(section: Network, inputs: int, pictures: Pictures | None = None) -> Backbone:
    """A backbone with initial weights, of inputs that begin with `pictures`. Raises ConfigError, with fields relative to the policy,
    for a wrong custom class.
    """
    kind = NETWORKS[section.type]
    arguments = (section, inputs, pictures) if kind.sees_pictures else (section, inputs)
    backbone: Backbone = resolve(f"{PACKAGE}.{kind.make}")(*arguments)
    return backbone


class AgentNetwork(Protocol):
    """The interface of actors and critics."""

    chunk_length: int
    """L, the chunk length for learning: 1 without memory."""
    has_memory: bool

    def start(self, environments: int) -> Memory:
        """The initial memory of episodes, with B x N rows."""
        ...

    def step(self, x: Tensor, memory: Memory) -> tuple[Tensor, Memory]:
        """(B, N, D) -> (B, N, O)."""
        ...

    def sequence(self, x: Tensor, memory: Memory, begins: Tensor) -> Tensor:
        """(L, B, N, D), begins (L, B) -> (L, B, N, O)."""
        ...


class SharedNetwork(nn.Module):
    """One network for all agents, distinguished by a learnt identity embedding (parameter sharing)."""

    def __init__(
        self, config: Network, inputs: int, outputs: int, agents: int, gain: float, pictures: Pictures | None
    ) -> None:
        super().__init__()
        identity = config.identity_dim if agents > 1 else 0
        self.identity = nn.Embedding(agents, identity) if identity else None
        self.backbone = make_backbone(config, inputs + identity, pictures)
        self.head = linear(self.backbone.features, outputs, config.orthogonal, gain)
        self.agents = agents
        self.has_memory = self.backbone.has_memory
        self.chunk_length = config.sequence_length if self.has_memory else 1

    def start(self, environments: int) -> Memory:
        return self.backbone.start(environments * self.agents)

    def step(self, x: Tensor, memory: Memory) -> tuple[Tensor, Memory]:
        features, memory = self.backbone.step(self._named(x).flatten(0, 1), memory)
        return self.head(features).unflatten(0, x.shape[:2]), memory

    def sequence(self, x: Tensor, memory: Memory, begins: Tensor) -> Tensor:
        rows = begins.repeat_interleave(self.agents, dim=1) if self.has_memory else begins
        features = self.backbone.sequence(self._named(x).flatten(1, 2), memory, rows)
        out: Tensor = self.head(features).unflatten(1, x.shape[1:3])
        return out

    def _named(self, x: Tensor) -> Tensor:
        """Inputs with each agent's identity appended."""
        if self.identity is None:
            return x
        return torch.cat([x, self.identity.weight.expand(*x.shape[:-1], -1)], dim=-1)


class SeparateNetworks(nn.Module):
    """Separate weights for every agent."""

    def __init__(
        self, config: Network, inputs: int, outputs: int, agents: int, gain: float, pictures: Pictures | None
    ) -> None:
        super().__init__()
        made = [SharedNetwork(config, inputs, outputs, 1, gain, pictures) for _ in range(agents)]
        self.networks = nn.ModuleList(made)
        self.members = made
        self.agents = agents
        self.has_memory = made[0].has_memory
        self.chunk_length = made[0].chunk_length

    def start(self, environments: int) -> Memory:
        return self.members[0].backbone.start(environments * self.agents)

    def step(self, x: Tensor, memory: Memory) -> tuple[Tensor, Memory]:
        outs, memories = [], []
        for index, network in enumerate(self.members):
            out, after = network.step(x[:, index : index + 1], self._of(index, memory))
            outs.append(out)
            memories.append(after)
        together = map_memory(lambda *parts: torch.stack(parts, dim=1).flatten(0, 1), *memories)
        return torch.cat(outs, dim=1), together

    def sequence(self, x: Tensor, memory: Memory, begins: Tensor) -> Tensor:
        outs = [
            network.sequence(x[:, :, index : index + 1], self._of(index, memory), begins)
            for index, network in enumerate(self.members)
        ]
        return torch.cat(outs, dim=2)

    def _of(self, index: int, memory: Memory) -> Memory:
        """The rows of one agent."""
        return map_memory(lambda part: part[index :: self.agents], memory)


Networks = SharedNetwork | SeparateNetworks


def make_network(
    config: Network, inputs: int, outputs: int, agents: int, gain: float, pictures: Pictures | None = None
) -> Networks:
    """A network for `agents` agents; `gain` scales the head's orthogonal initial weights. `pictures`: as in make_backbone."""
    kind = SharedNetwork if config.share_parameters or agents == 1 else SeparateNetworks
    network = kind(config, inputs, outputs, agents, gain, pictures)
    use_fast_products(network)
    return network
