"""Fused decoder layers on the CPU: those of Llama, Mistral, Qwen2 and Qwen3 with fewer and larger operations.

B rows, S places, N = B * S places of a pass, K of them whose results are needed, H hidden size, Q query heads, C key heads, D head
size. transformers' modules compute a layer in about fifty operations, each with its own node of autograd and its own temporary
tensors; for a small model these cost more than the products. Here a layer is one node (decoder_gradients.py), query, key and value
are one product, and the last layer computes only the places whose results are needed.

A model with other layers, with hooks, adapters or activation checkpointing, and a model on a GPU use transformers' modules.
Whether this pass gives the model's logits is determined by trials where it is used.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from training_core.fast_linear import OneDnnLinear
from training_core.llm.models.decoder_gradients import TreeAttend, trained_states
from training_core.llm.models.decoder_layer import Attend, Layer, Places, Weights, layer_states
from training_core.llm.models.tree_attention import TreeMask

_LAYERS = {"LlamaDecoderLayer", "MistralDecoderLayer", "Qwen2DecoderLayer", "Qwen3DecoderLayer"}
_ACTIVATIONS = {"SiLU", "SiLUActivation"}
_LINEAR = (nn.Linear, OneDnnLinear)
_PARTS = {"self_attn", "mlp", "input_layernorm", "post_attention_layernorm"}


@dataclass(frozen=True)
class Decoder:
    """The layers of a model."""

    base: Any
    """The model without its output layer."""
    layers: tuple[Layer, ...]

    def hidden(self, tokens: Tensor, positions: Tensor, attend: Attend, needed: Tensor | None) -> Tensor:
        """Last hidden states (K, H) of tokens (B, S), at the places `needed` (K,), indices into B * S (None: at all), without gradients."""
        states, places = self._begin(tokens, positions, needed)
        for number, layer in enumerate(self.layers):
            chosen = needed if number == len(self.layers) - 1 else None
            states, _, _ = layer_states(layer, states, places, attend, chosen)
        return self._end(states)

    def trained_hidden(self, tokens: Tensor, positions: Tensor, mask: TreeMask, needed: Tensor) -> Tensor:
        """The same for packed rows, with gradients."""
        if not torch.is_grad_enabled():
            return self.hidden(tokens, positions, TreeAttend(mask.blocks, 0), needed)
        attend = TreeAttend(mask.blocks, len(self.layers[0].weights.gate))
        states, places = self._begin(tokens, positions, needed)
        for number, layer in enumerate(self.layers):
            chosen = needed if number == len(self.layers) - 1 else None
            states = trained_states(layer, states, places, attend, chosen)
        return self._end(states)

    def _begin(self, tokens: Tensor, positions: Tensor, needed: Tensor | None) -> tuple[Tensor, Places]:
        states: Tensor = self.base.embed_tokens(tokens)
        cosines, sines = self.base.rotary_emb(states, positions)
        half = cosines.shape[-1] // 2
        turns = torch.complex(cosines[..., :half].float(), sines[..., :half].float()).unsqueeze(2)
        return states.flatten(0, 1), Places(tokens.shape, turns)

    def _end(self, states: Tensor) -> Tensor:
        normalised: Tensor = self.base.norm(states)
        return normalised


def decoder_of(model: PreTrainedModel) -> Decoder | None:
    """A model's layers; None if they cannot be fused."""
    base: Any = model.base_model
    layers = list(getattr(base, "layers", None) or ())
    if not layers or base is model or model.device.type != "cpu":
        return None
    if any(_has_hooks(part) or "forward" in vars(part) for part in (model, base)):
        return None
    if not all(type(layer).__name__ in _LAYERS and _is_plain(layer) for layer in layers):
        return None
    if not all(hasattr(base, name) for name in ("embed_tokens", "rotary_emb", "norm")) or _has_hooks(
        base.norm
    ):
        return None
    return Decoder(base, tuple(_layer(part) for part in layers))


def _layer(part: Any) -> Layer:
    attention, mlp = part.self_attn, part.mlp
    return Layer(
        number=int(attention.layer_idx),
        head_size=int(attention.head_dim),
        scale=float(attention.scaling),
        epsilon=float(part.input_layernorm.variance_epsilon),
        weights=Weights(
            part.input_layernorm.weight,
            attention.q_proj.weight,
            attention.k_proj.weight,
            attention.v_proj.weight,
            attention.o_proj.weight,
            part.post_attention_layernorm.weight,
            mlp.gate_proj.weight,
            mlp.up_proj.weight,
            mlp.down_proj.weight,
            attention.q_proj.bias,
            attention.k_proj.bias,
            attention.v_proj.bias,
            attention.q_norm.weight if hasattr(attention, "q_norm") else None,
            attention.k_norm.weight if hasattr(attention, "k_norm") else None,
        ),
    )


def _is_plain(layer: Any) -> bool:
    """Whether a layer has exactly the parts of a fused layer."""
    if getattr(layer, "gradient_checkpointing", False) or layer._modules.keys() != _PARTS:
        return False
    attention, mlp = layer.self_attn, layer.mlp
    products = (attention.q_proj, attention.k_proj, attention.v_proj)
    without_bias = (attention.o_proj, mlp.gate_proj, mlp.up_proj, mlp.down_proj)
    return (
        type(mlp.act_fn).__name__ in _ACTIVATIONS
        and all(type(part) in _LINEAR for part in (*products, *without_bias))
        and all(part.bias is None for part in without_bias)
        and len({part.bias is None for part in products}) == 1
        and not any(_has_hooks(part) for part in _parts(layer))
    )


def _parts(layer: nn.Module) -> Iterator[nn.Module]:
    yield layer
    for part in layer._modules.values():
        if part is not None:
            yield from _parts(part)


def _has_hooks(part: Any) -> bool:
    """Whether a module must be called to compute its result: hooks of capturing, or of DeepSpeed's partitioned weights."""
    return bool(
        part._forward_hooks
        or part._forward_pre_hooks
        or part._backward_hooks
        or part._backward_pre_hooks
        or any(hasattr(weight, "ds_id") for weight in part._parameters.values())
    )
