"""Adam over all weights of a network as one vector.

Weights and gradients are one vector each, with the network's tensors as views: an optimiser step, the norm and the
zeroing of gradients are then one operation each, independent of the number of layers.

The weights of a network with a GRU or LSTM remain where they are, in one tensor each: cuDNN needs a recurrent layer's
weights at the start of one piece of memory, in its own order, where torch has put them (`flatten_parameters`).
"""

import torch
from torch import Tensor, nn


class FlatAdam:
    """AdamW (Loshchilov and Hutter 2019; Adam if weight_decay is 0), with gradients scaled down to a norm."""

    def __init__(self, module: nn.Module, weight_decay: float, max_norm: float) -> None:
        parameters = list(module.parameters())
        sizes = [parameter.numel() for parameter in parameters]
        vector = torch.cat([parameter.detach().reshape(-1) for parameter in parameters])
        self.gradients = torch.zeros_like(vector)
        for parameter, gradient in zip(parameters, self.gradients.split(sizes), strict=True):
            parameter.grad = gradient.view_as(parameter)
        self._parts = [vector]
        if any(isinstance(layer, nn.RNNBase) for layer in module.modules()):
            self._parts = [parameter.data.view(-1) for parameter in parameters]
        else:
            for parameter, weights in zip(parameters, vector.split(sizes), strict=True):
                parameter.data = weights.view_as(parameter)
        self.max_norm = max_norm
        self._weight_decay = weight_decay
        self._learning_rate = 0.0
        self._state: dict[str, Tensor] = {}

    @property
    def weights(self) -> Tensor:
        """All weights (P,): the vector itself, or a copy if they are in several tensors."""
        return self._parts[0] if len(self._parts) == 1 else torch.cat(self._parts)

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
            self._state = {name: torch.zeros_like(self.gradients) for name in ("exp_avg", "exp_avg_sq")}
            self._state["step"] = torch.zeros((), dtype=torch.float32, device=self.gradients.device)
        self._state["step"] += 1
        sizes = [part.numel() for part in self._parts]
        # The kernel itself: around it the optimiser's `step` takes longer than a small network's arithmetic.
        torch._fused_adamw_(
            self._parts,
            self.gradients.split(sizes),
            self._state["exp_avg"].split(sizes),
            self._state["exp_avg_sq"].split(sizes),
            [],
            [self._state["step"]] * len(sizes),
            amsgrad=False,
            beta1=0.9,
            beta2=0.999,
            lr=self._learning_rate,
            weight_decay=self._weight_decay,
            eps=1e-5,
            maximize=False,
        )

    def state_dict(self) -> dict[str, Tensor]:
        """Moments and the step count; empty before the first step."""
        return {name: tensor.clone() for name, tensor in self._state.items()}

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """Restore `state_dict`. Raises ValueError if it belongs to another network."""
        for name in ("exp_avg", "exp_avg_sq"):
            if state and state[name].shape != self.gradients.shape:
                raise ValueError(
                    f"the optimiser has {self.gradients.numel()} weights, the checkpoint {state[name].numel()}"
                )
        self._state = {name: tensor.to(self.gradients.device, copy=True) for name, tensor in state.items()}
