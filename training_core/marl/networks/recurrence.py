"""Gated recurrent networks: hidden layers, then a GRU or an LSTM.

The memory is the state of every layer, (R, layers, H) each: one tensor for a GRU, two (hidden, cell) for an LSTM.
"""

from itertools import pairwise

import torch
from torch import Tensor, nn

from training_core.fast_linear import linear
from training_core.marl.networks.base import Backbone, Memory, reset_memory
from training_core.marl.networks.gated_cells import gru
from training_core.marl.networks.layers import layers
from training_core.marl.networks.network_config import Recurrent

GRU_WEIGHTS = ("weight_ih", "bias_ih", "weight_hh", "bias_hh")


class Recurrence(Backbone):
    """A recurrent network of torch as a backbone."""

    def __init__(self, config: Recurrent, inputs: int, kind: type[nn.GRU] | type[nn.LSTM]) -> None:
        super().__init__()
        self.features = config.recurrent_hidden_dim
        self.before = layers(config, inputs)
        width = config.hidden_dim if config.hidden_layers else inputs
        self.cells = kind(width, self.features, config.recurrent_layers)
        self.states = 2 if kind is nn.LSTM else 1
        if config.orthogonal:
            self._orthogonal()

    def start(self, rows: int) -> Memory:
        weight = next(self.cells.parameters())
        empty = weight.new_zeros(rows, self.cells.num_layers, self.features)
        return (empty,) * self.states

    def step(self, x: Tensor, memory: Memory) -> tuple[Tensor, Memory]:
        x = self.before(x)[None]
        if self._is_analytic(x):
            features, memory = self._analytic(x, memory, torch.zeros_like(x[..., 0], dtype=torch.bool))
        else:
            features, memory = self._run(x, memory)
        return features[0], memory

    def sequence(self, x: Tensor, memory: Memory, begins: Tensor) -> Tensor:
        x = self.before(x)
        if self._is_analytic(x):
            return self._analytic(x, memory, begins)[0]
        return self._by_torch(x, memory, begins)

    def _is_analytic(self, x: Tensor) -> bool:
        """GRUs on CPU cores: GPUs have kernels for whole sequences, and compiled updates their own."""
        return self.states == 1 and x.device.type == "cpu" and not torch.compiler.is_compiling()

    def _analytic(self, x: Tensor, memory: Memory, begins: Tensor) -> tuple[Tensor, Memory]:
        """L steps (L, R, D), layer by layer."""
        after = []
        for layer, hidden in enumerate(memory[0].unbind(1)):
            own = {name: getattr(self.cells, f"{name}_l{layer}") for name in GRU_WEIGHTS}
            inputs = linear(x, own["weight_ih"], own["bias_ih"])
            x = gru(inputs, own["weight_hh"], own["bias_hh"], hidden, begins)
            after.append(x[-1])
        return x, (torch.stack(after, dim=1),)

    def _by_torch(self, x: Tensor, memory: Memory, begins: Tensor) -> Tensor:
        """All steps between two episode starts of any row are one call."""
        cuts = [t for t in begins.any(1).nonzero().flatten().tolist() if t > 0]
        parts = []
        fresh = self.start(x.shape[1])
        for first, last in pairwise([0, *cuts, len(x)]):
            features, memory = self._run(x[first:last], reset_memory(memory, fresh, begins[first]))
            parts.append(features)
        return torch.cat(parts)

    def _run(self, x: Tensor, memory: Memory) -> tuple[Tensor, Memory]:
        """L steps (L, R, D) without an episode start; torch expects layers before rows."""
        states = [state.transpose(0, 1).contiguous() for state in memory]
        if self.states == 1:
            features, hidden = self.cells(x, states[0])
            return features, (hidden.transpose(0, 1),)
        features, (hidden, cell) = self.cells(x, states)
        return features, (hidden.transpose(0, 1), cell.transpose(0, 1))

    def _orthogonal(self) -> None:
        """Initialise each gate's weights separately (torch stacks the gates).

        An LSTM starts with open forget gates (Jozefowicz et al. 2015), so it retains its state before training.
        """
        for name, parameter in self.cells.named_parameters():
            if "weight" not in name:
                nn.init.zeros_(parameter)
                if self.states == 2 and "bias_ih" in name:
                    nn.init.ones_(parameter.data[self.features : 2 * self.features])
                continue
            for gate in parameter.data.split(self.features):
                nn.init.orthogonal_(gate)
