"""LoRA: small matrices added to a model's linear layers, the only weights that are trained (arXiv 2106.09685).

y = W x + alpha / rank * B A x; A (rank, inputs) is drawn as Kaiming He et al. do, B (outputs, rank) is initialised to 0,
so a new adapter changes nothing. Policies with the same base model in one process share its tensors. Names of modules and
tensors, initial weights and the use of the random generator are those of PEFT, as is the format of saved adapters:
adapter_model.safetensors and adapter_config.json, which names the base. PEFT itself is not needed.
"""

import copy
import itertools
import json
import math
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from transformers import PreTrainedModel
from transformers.pytorch_utils import Conv1D

from training_core.errors import ModelError
from training_core.llm.models.adapter_config import Lora
from training_core.llm.models.shape import ADAPTER_CONFIG, adapter_config


class LoraLinear(nn.Module):
    """A linear layer, unchanged, and its adapter `name`."""

    def __init__(self, base: nn.Module, adapter: Lora, name: str, alpha: int) -> None:
        super().__init__()
        self.base_layer = base
        self._name = name
        self.r = {name: adapter.rank}
        self.lora_alpha = {name: alpha}
        self.scaling = {name: alpha / adapter.rank}
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
    alpha = adapter.alpha_for(model.config.get_text_config().hidden_size)
    for path in chosen:
        model.set_submodule(path, LoraLinear(model.get_submodule(path), adapter, name, alpha))


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


ADAPTER_WEIGHTS = "adapter_model.safetensors"
_NAME = "default"
"""PEFT's name of an adapter; a model has at most one."""
_PREFIX = "base_model.model."
"""Prefix of weight names in PEFT's files, from its model wrapper."""


def with_shared_tensors(model: PreTrainedModel) -> PreTrainedModel:
    """Another model with the same tensors but separate modules, so that an adapter in one is not in the other."""
    tensors = itertools.chain(model.parameters(), model.buffers())
    return copy.deepcopy(model, {id(tensor): tensor for tensor in tensors})


def add_adapter(model: PreTrainedModel, adapter: Lora, seed: int) -> None:
    """Add a new adapter to `model` and freeze all other weights. Raises ModelError if no layer has a matching name."""
    device = model.device
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        torch.manual_seed(seed)
        try:
            inject_lora(model, adapter, _NAME)
        except ValueError as error:
            names = {name.rpartition(".")[2] for name, part in model.named_modules() if is_linear(part)}
            raise ModelError(
                f"the model has no layers named {', '.join(adapter.target_modules)}",
                remedy=f"in policies.*.adapter.target_modules use some of {', '.join(sorted(names))}, or none for all of them",
            ) from error
    for name, weight in model.named_parameters():
        weight.requires_grad_(_is_adapter(name))
    model.eval()


def has_adapter(model: PreTrainedModel) -> bool:
    """Whether this model is trained through an adapter."""
    return any(_is_adapter(name) for name, _ in model.named_parameters())


def trained_weights(model: PreTrainedModel) -> dict[str, Tensor]:
    """The trained weights by name, detached: the adapter's if there is one, otherwise all (tied ones once per name)."""
    state = {name: tensor.detach() for name, tensor in model.state_dict().items()}
    return {name: tensor for name, tensor in state.items() if _is_adapter(name)} or state


def load_trained_weights(model: PreTrainedModel, weights: Mapping[str, Tensor]) -> None:
    """Load `trained_weights` of another model of this architecture. Raises RuntimeError if names or shapes differ."""
    own = trained_weights(model)
    if different := sorted(own.keys() ^ weights.keys()):
        raise RuntimeError(f"weights named {', '.join(different[:3])} are on one side only")
    once = {  # tied weights are copied once
        (own[name].data_ptr(), tensor.data_ptr(), tensor.shape): name for name, tensor in weights.items()
    }
    model.load_state_dict({name: weights[name] for name in once.values()}, strict=False)


def without_adapter(model: PreTrainedModel) -> PreTrainedModel:
    """The base model without the adapter: the same tensors, no copy."""
    return _unwrapped(with_shared_tensors(model))


def merged(model: PreTrainedModel) -> PreTrainedModel:
    """An equivalent model without an adapter: a copy with B A added to W."""
    return _merge(copy.deepcopy(model))


def save_adapter(folder: Path, model: PreTrainedModel, weights: Mapping[str, Tensor], base: str) -> None:
    """Write the adapter (`trained_weights`), and its base model (`base`: a folder or hub id), into `folder`. Raises OSError."""
    settings: Any = next(iter(_adapted_layers(model).values()))
    named = {
        _PREFIX + name.replace(f".{_NAME}.", "."): tensor.contiguous() for name, tensor in weights.items()
    }
    targets = {name.rpartition(".")[2] for name in _adapted_layers(model)}
    facts = {
        "peft_type": "LORA",
        "task_type": "CAUSAL_LM",
        "base_model_name_or_path": base,
        "r": settings.r[_NAME],
        "lora_alpha": settings.lora_alpha[_NAME],
        "lora_dropout": float(getattr(settings.lora_dropout[_NAME], "p", 0.0)),
        "target_modules": sorted(targets),
        "bias": "none",
        "inference_mode": True,
    }
    save_file(named, folder / ADAPTER_WEIGHTS, {"format": "pt"})
    (folder / ADAPTER_CONFIG).write_text(json.dumps(facts, indent=1))
    model.config.save_pretrained(folder)


def read_adapter(folder: Path, device: str = "cpu") -> dict[str, Tensor]:
    """An adapter's weights by their names in the model. Raises OSError, SafetensorError."""
    weights = load_file(folder / ADAPTER_WEIGHTS, device=device)
    return {_model_name(name): tensor for name, tensor in weights.items()}


def merge_into(model: PreTrainedModel, folder: Path) -> None:
    """Merge the saved adapter of `folder` into its base `model`, in place. Raises ModelError, RuntimeError."""
    facts = adapter_config(folder)
    adapter = Lora(rank=facts["r"], alpha=facts["lora_alpha"], target_modules=tuple(facts["target_modules"]))
    add_adapter(model, adapter, 0)
    load_trained_weights(model, read_adapter(folder, str(model.device)))
    _merge(model).requires_grad_(True)


def _model_name(name: str) -> str:
    """...q_proj.lora_A.weight -> ...q_proj.lora_A.default.weight."""
    path, _, kind = name.removeprefix(_PREFIX).rpartition(".")
    return f"{path}.{_NAME}.{kind}"


def _is_adapter(name: str) -> bool:
    return ".lora_" in name


def _adapted_layers(model: PreTrainedModel) -> dict[str, Any]:
    """Layers that have an adapter, by name."""
    return {name: part for name, part in model.named_modules() if hasattr(part, "lora_A")}


def _merge(model: PreTrainedModel) -> PreTrainedModel:
    for part in _adapted_layers(model).values():
        part.merge()
    return _unwrapped(model)


def _unwrapped(model: PreTrainedModel) -> PreTrainedModel:
    for name, part in _adapted_layers(model).items():
        model.set_submodule(name, part.get_base_layer())
    return model
