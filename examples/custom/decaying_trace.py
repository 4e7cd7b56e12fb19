"""A custom network with memory: a trace of earlier features that decays from step to step."""

import torch
from torch import Tensor, nn

from training_core.marl.networks.base import Backbone, Memory
from training_core.marl.networks.config import CustomNetwork


class DecayingTrace(Backbone):
    """Features (R, H): trace = decay * trace + tanh(W x), which is also the memory."""

    def __init__(self, config: CustomNetwork, inputs: int, decay: float = 0.9) -> None:
        super().__init__()
        self.features = config.hidden_dim
        self.layer = nn.Linear(inputs, self.features)
        self.decay = decay

    def start(self, rows: int) -> Memory:
        return (self.layer.weight.new_zeros(rows, self.features),)

    def step(self, x: Tensor, memory: Memory) -> tuple[Tensor, Memory]:
        trace = self.decay * memory[0] + torch.tanh(self.layer(x))
        return trace, (trace,)

    def sequence(self, x: Tensor, memory: Memory, begins: Tensor) -> Tensor:
        traces = []
        for inputs, rows in zip(x, begins, strict=True):
            trace, memory = self.step(inputs, (memory[0].masked_fill(rows.unsqueeze(-1), 0.0),))
            traces.append(trace)
        return torch.stack(traces)
