"""The optimiser's step: AdamW on fp32 weights, whatever the precision of the model.

bf16 keeps 8 bits of a weight: an update smaller than about 0.4% of it would round away to nothing. So a model in bf16
is trained through an fp32 copy of its weights ("master weights", arXiv 1710.03740, section 3.1).
"""

import math
from collections.abc import Mapping

import torch
from torch import Tensor
from transformers import PreTrainedModel

from training_core.config.models import Learner

_SEPARATOR = "/"
_MASTER = "master"


class Optimiser:
    """AdamW, gradient clipping and the fp32 copies of a model's trainable weights, where it needs them."""

    def __init__(self, model: PreTrainedModel, settings: Learner) -> None:
        self.names = [name for name, weight in model.named_parameters() if weight.requires_grad]
        self.weights = [weight for weight in model.parameters() if weight.requires_grad]
        self.masters = [
            weight if weight.dtype == torch.float32 else torch.nn.Parameter(weight.detach().float())
            for weight in self.weights
        ]
        self.limit = settings.max_grad_norm or math.inf
        self.adamw = torch.optim.AdamW(
            self.masters,
            lr=settings.learning_rate,
            betas=settings.betas,
            weight_decay=settings.weight_decay,
            fused=True,
        )

    def begin(self, rate: float) -> None:
        """Set the learning rate; take over weights that were changed (loaded) behind the fp32 copies."""
        for section in self.adamw.param_groups:
            section["lr"] = rate
        with torch.no_grad():
            for weight, master in self._copied():
                if not torch.equal(weight, master.to(weight.dtype)):
                    master.copy_(weight)

    def step(self) -> float | None:
        """Clip and apply the gradients, then forget them; their norm (L2, before clipping).

        None where the norm is not finite: then nothing is applied.
        """
        for weight, master in self._copied():
            master.grad = weight.grad.float() if weight.grad is not None else None
        norm = float(torch.nn.utils.clip_grad_norm_(self.masters, self.limit))
        finite = math.isfinite(norm)
        if finite:
            self.adamw.step()
            with torch.no_grad():
                for weight, master in self._copied():
                    weight.copy_(master)
        for weight, master in zip(self.weights, self.masters, strict=True):
            weight.grad = master.grad = None
        return norm if finite else None

    def state_dict(self) -> dict[str, Tensor]:
        """AdamW's moments and step counts by the weights' names, and the fp32 copies."""
        state = self.adamw.state_dict()["state"]
        tensors = {
            f"{self.names[number]}{_SEPARATOR}{key}": item.contiguous()
            for number, part in state.items()
            for key, item in part.items()
        }
        for name, weight, master in zip(self.names, self.weights, self.masters, strict=True):
            if master is not weight:
                tensors[f"{name}{_SEPARATOR}{_MASTER}"] = master.detach()
        return tensors

    def load_state_dict(self, tensors: Mapping[str, Tensor]) -> None:
        """Put `state_dict`'s tensors back. Raises KeyError or ValueError where they are not of these weights."""
        numbers = {name: number for number, name in enumerate(self.names)}
        state: dict[int, dict[str, Tensor]] = {}
        for key, tensor in tensors.items():
            name, what = key.rsplit(_SEPARATOR, 1)
            number = numbers[name]
            if what != "step" and tensor.shape != self.masters[number].shape:
                raise ValueError(
                    f"{key} has shape {tuple(tensor.shape)}, not {tuple(self.masters[number].shape)}"
                )
            if what == _MASTER:
                with torch.no_grad():
                    self.masters[number].copy_(tensor)
            else:
                state.setdefault(number, {})[what] = tensor.clone()
        self.adamw.load_state_dict({"state": state, "param_groups": self.adamw.state_dict()["param_groups"]})

    def _copied(self) -> list[tuple[Tensor, Tensor]]:
        pairs = zip(self.weights, self.masters, strict=True)
        return [(weight, master) for weight, master in pairs if master is not weight]
