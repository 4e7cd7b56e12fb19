"""Adam over all weights of a network as one vector.

Weights and gradients are one vector each, with the network's tensors as views: an optimiser step, the norm and the
zeroing of gradients are then one operation each, independent of the number of layers.
"""

import torch
from torch import Tensor, nn


def in_memory_order(module: nn.Module) -> list[nn.Parameter]:
    """A module's parameters, those of its recurrent layers first: their matrices, then their biases.

    cuDNN copies the weights of a GRU or LSTM in each call unless they are one chunk in this order, at the start of their
    storage.
    """
    recurrent = [part for part in module.modules() if isinstance(part, nn.RNNBase)]
    first = [parameter for part in recurrent for parameter in part.parameters()]
    first.sort(key=lambda parameter: parameter.dim() != 2)
    known = {id(parameter) for parameter in first}
    return [*first, *(parameter for parameter in module.parameters() if id(parameter) not in known)]


class FlatAdam:
    """AdamW (Loshchilov and Hutter 2019; Adam if weight_decay is 0), with gradients scaled down to a norm."""

    def __init__(self, module: nn.Module, weight_decay: float, max_norm: float) -> None:
        parameters = in_memory_order(module)
        self._sizes = [parameter.numel() for parameter in parameters]
        positions = {id(parameter): position for position, parameter in enumerate(parameters)}
        self._positions = [positions[id(parameter)] for parameter in module.parameters()]
        """Position in the vector of each of the module's parameters."""
        device = parameters[0].device
        self.weights = nn.Parameter(torch.cat([p.detach().reshape(-1) for p in parameters]))
        self.gradients = torch.zeros_like(self.weights, device=device)
        self.weights.grad = self.gradients
        self.max_norm = max_norm
        begin = 0
        for parameter in parameters:
            end = begin + parameter.numel()
            parameter.data = self.weights.data[begin:end].view_as(parameter)
            parameter.grad = self.gradients[begin:end].view_as(parameter)
            begin = end
        self._weight_decay = weight_decay
        self._learning_rate = 0.0
        self._state: dict[str, Tensor] = {}

    def set_learning_rate(self, learning_rate: float) -> None:
        """Set the learning rate of the following steps."""
        self._learning_rate = learning_rate

    def zero_gradients(self) -> None:
        """Zero the gradients; call before backward."""
        self.gradients.zero_()

    def step(self) -> Tensor:
        """Apply the gradients; return their norm () before clipping.

        Gradients that are not finite change neither weights nor moments nor the step count.
        """
        norm: Tensor = torch.linalg.vector_norm(self.gradients)
        if self.max_norm:
            self.gradients.mul_((self.max_norm / (norm + 1e-6)).clamp(max=1.0))
        if torch.isfinite(norm):
            self._apply()
        return norm

    @torch.no_grad()
    def _apply(self) -> None:
        if not self._state:
            self._state = {name: torch.zeros_like(self.weights) for name in ("exp_avg", "exp_avg_sq")}
            self._state["step"] = torch.zeros((), dtype=torch.float32, device=self.weights.device)
        self._state["step"] += 1
        # The kernel itself: around it the optimiser's `step` takes longer than a small network's arithmetic.
        torch._fused_adamw_(
            [self.weights],
            [self.gradients],
            [self._state["exp_avg"]],
            [self._state["exp_avg_sq"]],
            [],
            [self._state["step"]],
            amsgrad=False,
            beta1=0.9,
            beta2=0.999,
            lr=self._learning_rate,
            weight_decay=self._weight_decay,
            eps=1e-5,
            maximize=False,
        )

    def state_dict(self) -> dict[str, Tensor]:
        """Moments in the order of the module's parameters, and the step count; empty before the first step."""
        return {
            name: torch.cat([tensor.split(self._sizes)[position] for position in self._positions])
            if tensor.dim()
            else tensor.clone()
            for name, tensor in self._state.items()
        }

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """Restore `state_dict`. Raises ValueError if it belongs to another network."""
        for name in ("exp_avg", "exp_avg_sq"):
            if state and state[name].shape != self.weights.shape:
                raise ValueError(
                    f"the optimiser has {self.weights.numel()} weights, the checkpoint {state[name].numel()}"
                )
        self._state = {name: tensor.to(self.weights.device, copy=True) for name, tensor in state.items()}
        for name in ("exp_avg", "exp_avg_sq") if state else ():
            parts = self._state[name].split([self._sizes[position] for position in self._positions])
            ordered = dict(zip(self._positions, parts, strict=True))
            self._state[name] = torch.cat([ordered[position] for position in range(len(ordered))])
