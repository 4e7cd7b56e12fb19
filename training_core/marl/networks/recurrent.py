"""GRU (Cho et al. 2014, arXiv 1406.1078) and LSTM (Hochreiter and Schmidhuber 1997): hidden layers, then gated cells.

The memory is the state of every layer, (R, layers, H) each: one tensor for a GRU, two (hidden, cell) for an LSTM.

On CPU cores a GRU is computed here, with analytic gradients: torch computes it with many small operations and multiplies with MKL,
without resets of the memory (its LSTM uses oneDNN). Episodes may begin at any step, and the gradients of the weights are one
product over all steps.

Letters: L steps, R rows, H features. Under autocast to bf16 the products are in bf16, the memory is in fp32.
"""

from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn

from training_core.fast_linear import linear, weight_gradient
from training_core.marl.networks.base import Backbone, Memory, reset_memory
from training_core.marl.networks.config import Recurrent
from training_core.marl.networks.layers import layers


def gru(inputs: Tensor, weight: Tensor, bias: Tensor, hidden: Tensor, begins: Tensor) -> Tensor:
    """Features (L, R, H) from the gates' part of the inputs (L, R, 3H), the weights of the memory (3H, H), and the memory (R, H).

    begins (L, R): the memory is empty before this step. Cho et al. 2014, with the gates and their order of torch.nn.GRU.
    """
    apply: Any = _Gru.apply  # torch has no types for it
    features: Tensor = apply(inputs.to(hidden.dtype), weight, bias, hidden, begins)
    return features


class _Products:
    """Products with the weights of the memory: in bf16 under autocast, otherwise in the precision of the weights."""

    def __init__(self, weight: Tensor, bias: Tensor) -> None:
        low = torch.is_autocast_enabled("cpu")
        self.dtype = torch.get_autocast_dtype("cpu") if low else weight.dtype
        self.weight, self.bias = weight.to(self.dtype), bias.to(self.dtype)
        self.result = weight.dtype

    def forward(self, hidden: Tensor) -> Tensor:
        """(R, H) -> (R, gates)."""
        with torch.autocast("cpu", enabled=False):
            return linear(hidden.to(self.dtype), self.weight, self.bias).to(self.result)

    def backward(self, gradient: Tensor) -> Tensor:
        """(R, gates) -> (R, H)."""
        return linear(gradient.to(self.dtype), self.weight.t()).to(self.result)

    def gradients(self, hidden: Tensor, gradient: Tensor) -> tuple[Tensor, Tensor]:
        """Of the weights and the bias, from the memories (L, R, H) and the gradients (L, R, gates)."""
        rows = gradient.flatten(0, 1)
        of_weights = weight_gradient(hidden.flatten(0, 1).to(self.dtype), rows.to(self.dtype))
        return of_weights.to(self.result), rows.sum(0)


class _Gru(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, inputs: Tensor, weight: Tensor, bias: Tensor, hidden: Tensor, begins: Tensor
    ) -> Tensor:
        products, starts = _Products(weight, bias), begins.any(1).tolist()
        steps, rows, size = len(inputs), inputs.shape[1], hidden.shape[1]
        before, features, new, candidates = (inputs.new_empty(steps, rows, size) for _ in range(4))
        gates = inputs.new_empty(steps, rows, 2 * size)
        for t in range(steps):
            _enter(before[t], features[t - 1] if t else hidden, begins[t] if starts[t] else None)
            own = products.forward(before[t])
            torch.add(inputs[t, :, : 2 * size], own[:, : 2 * size], out=gates[t]).sigmoid_()
            reset, update = gates[t].chunk(2, 1)
            candidates[t] = own[:, 2 * size :]
            torch.addcmul(inputs[t, :, 2 * size :], reset, candidates[t], out=new[t])
            _tanh_(new[t])
            torch.lerp(new[t], before[t], update, out=features[t])
        ctx.products, ctx.starts = products, starts
        ctx.save_for_backward(begins, before, new, gates, candidates)
        return features

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        begins, before, new, gates, candidates = ctx.saved_tensors
        steps, rows, size = new.shape
        of_inputs = gates.new_empty(steps, rows, 3 * size)
        of_memory = torch.empty_like(of_inputs)
        carried: Tensor | None = None
        for t in reversed(range(steps)):
            gradient = gradients[0][t] if carried is None else carried.add_(gradients[0][t])
            reset, update = gates[t].chunk(2, 1)
            to_reset, to_update, to_new = of_inputs[t].chunk(3, 1)
            to_previous = gradient * update
            _tanh_backward(gradient - to_previous, new[t], to_new)
            _sigmoid_backward((before[t] - new[t]).mul_(gradient), update, to_update)
            _sigmoid_backward(to_new * candidates[t], reset, to_reset)
            of_memory[t, :, : 2 * size] = of_inputs[t, :, : 2 * size]
            torch.mul(to_new, reset, out=of_memory[t, :, 2 * size :])
            carried = ctx.products.backward(of_memory[t]).add_(to_previous)
            if ctx.starts[t]:
                carried.masked_fill_(begins[t].unsqueeze(1), 0.0)
        return of_inputs, *ctx.products.gradients(before, of_memory), carried, None


def _enter(before: Tensor, after: Tensor, begins: Tensor | None) -> None:
    """Write the memory before a step: that after the previous one, empty in rows that begin an episode."""
    before.copy_(after)
    if begins is not None:
        before.masked_fill_(begins.unsqueeze(1), 0.0)


def _tanh_(x: Tensor) -> Tensor:
    """tanh in place, by the logistic function; see layers.Tanh."""
    return x.mul_(2).sigmoid_().mul_(2).sub_(1)


def _tanh_backward(gradient: Tensor, values: Tensor, out: Tensor) -> None:
    torch.ops.aten.tanh_backward.grad_input(gradient, values, grad_input=out)


def _sigmoid_backward(gradient: Tensor, values: Tensor, out: Tensor) -> None:
    torch.ops.aten.sigmoid_backward.grad_input(gradient, values, grad_input=out)


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


class GruBackbone(Recurrence):
    """Hidden layers, then a GRU."""

    def __init__(self, config: Recurrent, inputs: int) -> None:
        super().__init__(config, inputs, nn.GRU)


class LstmBackbone(Recurrence):
    """Hidden layers, then an LSTM."""

    def __init__(self, config: Recurrent, inputs: int) -> None:
        super().__init__(config, inputs, nn.LSTM)
