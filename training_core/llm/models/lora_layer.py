"""A linear layer with a LoRA adapter (arXiv 2106.09685): y = W x + alpha / rank * B A x.

Names of modules and tensors, initial weights and the use of the random generator are those of PEFT, so that adapters
can be exchanged with it; PEFT itself is not needed. A (rank, inputs) is drawn as Kaiming He et al. do, B (outputs,
rank) is 0.
"""

import math
from collections.abc import Collection
from typing import Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel
from transformers.pytorch_utils import Conv1D

from training_core.llm.models.adapter_config import Lora


class LoraLinear(nn.Module):
    """A linear layer, unchanged, and its adapter `name`."""

    def __init__(self, base: nn.Module, adapter: Lora, name: str) -> None:
        super().__init__()
        self.base_layer = base
        self._name = name
        self.r = {name: adapter.rank}
        self.lora_alpha = {name: adapter.alpha}
        self.scaling = {name: adapter.alpha / adapter.rank}
        dropout = nn.Dropout(adapter.dropout) if adapter.dropout else nn.Identity()
        self.lora_dropout = nn.ModuleDict({name: dropout})
        inputs, outputs = _sizes(base)
        self.lora_A = nn.ModuleDict({name: nn.Linear(inputs, adapter.rank, bias=False)})
        self.lora_B = nn.ModuleDict({name: nn.Linear(adapter.rank, outputs, bias=False)})
        nn.init.kaiming_uniform_(self._first.weight, a=math.sqrt(5))
        nn.init.zeros_(self._second.weight)
        weight: Any = base.weight
        self.lora_A.to(weight.device, weight.dtype)
        self.lora_B.to(weight.device, weight.dtype)

    @property
    def _first(self) -> Any:
        return self.lora_A[self._name]

    @property
    def _second(self) -> Any:
        return self.lora_B[self._name]

    @property
    def weight(self) -> Any:
        """The layer's own weight."""
        return self.base_layer.weight

    def forward(self, x: Tensor) -> Tensor:
        """The layer's output with the adapter's."""
        result: Tensor = self.base_layer(x)
        inputs = self.lora_dropout[self._name](x.to(self._first.weight.dtype))
        change: Tensor = self._second(self._first(inputs)) * self.scaling[self._name]
        return (result + change).to(result.dtype)

    def get_base_layer(self) -> nn.Module:
        """The layer without the adapter."""
        return self.base_layer

    @torch.no_grad()
    def merge(self) -> None:
        """Add the adapter to the layer's weight."""
        change = self._second.weight.float() @ self._first.weight.float() * self.scaling[self._name]
        change = change.T if isinstance(self.base_layer, Conv1D) else change
        self.weight.add_(change.to(self.weight.dtype))


def inject_lora(model: PreTrainedModel, adapter: Lora, name: str) -> None:
    """Give an adapter to the linear layers with the configured names, or to all except the output layer.

    Raises ValueError if no layer has a matching name.
    """
    chosen = _chosen_layers(model, adapter.target_modules)
    if not chosen:
        raise ValueError(f"no linear layer is named {', '.join(adapter.target_modules)}")
    for path in chosen:
        model.set_submodule(path, LoraLinear(model.get_submodule(path), adapter, name))


def is_linear(part: nn.Module) -> bool:
    """Whether a module can have an adapter."""
    return isinstance(part, nn.Linear | Conv1D)


def _chosen_layers(model: PreTrainedModel, names: Collection[str]) -> list[str]:
    output = model.get_output_embeddings()
    return [
        path
        for path, part in model.named_modules()
        if is_linear(part)
        and (
            path in names or path.endswith(tuple(f".{name}" for name in names))
            if names
            else part is not output
        )
    ]


def _sizes(layer: nn.Module) -> tuple[int, int]:
    """Inputs and outputs of a linear layer; Conv1D's weight is transposed."""
    shape: Any = layer.weight.shape
    return (int(shape[0]), int(shape[1])) if isinstance(layer, Conv1D) else (int(shape[1]), int(shape[0]))
