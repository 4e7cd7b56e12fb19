"""Fused decoder layers on the CPU: those of Llama, Mistral, Qwen2 and Qwen3 with fewer and larger operations.

B rows, S places, N = B * S places of a pass, K of them whose results are needed, H hidden size, Q query heads, C key heads, D head
size. transformers' modules compute a layer in about fifty operations, each with its own node of autograd and its own temporary
tensors; for a small model these cost more than the products. Here a layer is one node of autograd, query, key and value are one
product, and the last layer computes only the places whose results are needed.

A layer is norm, attention and a gated network, each added to its input: Llama (arXiv 2302.13971), with biases as in Qwen2 and norms
of query and key as in Qwen3. Attention is passed in: a tree of packed rows (packed_attention.py), or the store of an engine.

A model with other layers, with hooks, adapters or activation checkpointing, and a model on a GPU use transformers' modules.
Whether this pass gives the model's logits is determined by trials where it is used.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor, nn
from torch.nn.functional import silu
from transformers import PreTrainedModel

from training_core.fast_linear import OneDnnLinear, linear, sum_with_product, weight_gradient
from training_core.llm.models.packed_attention import (
    QueryBlock,
    TreeMask,
    attention_gradients,
    block_attention,
)


class Weights(NamedTuple):
    """A layer's weights, under the names of their use."""

    before_attention: Tensor
    query: Tensor
    key: Tensor
    value: Tensor
    output: Tensor
    before_network: Tensor
    gate: Tensor
    up: Tensor
    down: Tensor
    query_bias: Tensor | None
    key_bias: Tensor | None
    value_bias: Tensor | None
    query_norm: Tensor | None
    key_norm: Tensor | None


@dataclass(frozen=True)
class Layer:
    """A layer's weights and constants."""

    number: int
    head_size: int
    scale: float
    """Of attention scores."""
    epsilon: float
    """Of the norms."""
    weights: Weights

    @property
    def heads(self) -> list[int]:
        """Numbers of heads of queries, keys and values."""
        weights = self.weights
        return [len(part) // self.head_size for part in (weights.query, weights.key, weights.value)]

    @cached_property
    def joined(self) -> tuple[Tensor, Tensor | None]:
        """Weight and bias of query, key and value as one product, in pairs (see `paired`); as of the first use."""
        weights = self.weights
        parts = [self.paired(weights.query), self.paired(weights.key), weights.value]
        if weights.query_bias is None or weights.key_bias is None or weights.value_bias is None:
            return torch.cat(parts).detach(), None
        biases = [self.paired(weights.query_bias), self.paired(weights.key_bias), weights.value_bias]
        return torch.cat(parts).detach(), torch.cat(biases).detach()

    def paired(self, weight: Tensor) -> Tensor:
        """Rows (heads * D, ...) of a weight with the two numbers of a rotation next to each other, which makes them a complex number.

        Models rotate the first half of a head against the second. Scores are the same in both orders.
        """
        halves = weight.unflatten(0, (-1, 2, self.head_size // 2))
        result: Tensor = halves.transpose(1, 2).flatten(0, 2)
        return result

    def halved(self, weight: Tensor) -> Tensor:
        """The inverse of `paired`."""
        pairs = weight.unflatten(0, (-1, self.head_size // 2, 2))
        result: Tensor = pairs.transpose(1, 2).flatten(0, 2)
        return result


@dataclass(frozen=True)
class Places:
    """The places of a pass."""

    shape: torch.Size
    """(B, S)"""
    turns: Tensor
    """(B, S, 1, D / 2) rotation of each pair, as a complex number."""


class Attend(Protocol):
    """Attention output (N, Q * D) of a layer's queries, keys and values (B, S, heads, D) before their rotation, and tensors that
    its gradients need.
    """

    def __call__(
        self, layer: Layer, places: Places, queries: Tensor, keys: Tensor, values: Tensor
    ) -> tuple[Tensor, Sequence[Tensor]]: ...


class Saved(NamedTuple):
    """What a layer's gradients need."""

    input: Tensor
    normalised: Tensor
    inverse: Tensor
    heads: Tensor | None
    """Queries and keys before their norms, if there are any."""
    attended: Tensor
    middle: Tensor
    middle_normalised: Tensor
    middle_inverse: Tensor
    gates: Tensor
    ups: Tensor


def layer_states(
    layer: Layer, states: Tensor, places: Places, attend: Attend, needed: Tensor | None
) -> tuple[Tensor, Saved, Sequence[Tensor]]:
    """A layer's output (K, H) for input (N, H), and what its gradients and those of attention need."""
    weights = layer.weights
    normalised, inverse = normalise(states, weights.before_attention, layer.epsilon)
    heads = linear(normalised, *layer.joined).view(*places.shape, -1, layer.head_size)
    queries, keys, values = heads.split(layer.heads, dim=2)
    if weights.query_norm is not None and weights.key_norm is not None:
        queries, _ = normalise(queries, layer.paired(weights.query_norm), layer.epsilon)
        keys, _ = normalise(keys, layer.paired(weights.key_norm), layer.epsilon)
    attended, more = attend(layer, places, queries, keys, values)
    rest = states
    if needed is not None:
        attended, rest = attended.index_select(0, needed), states.index_select(0, needed)
    middle = sum_with_product(rest, attended, weights.output)
    middle_normalised, middle_inverse = normalise(middle, weights.before_network, layer.epsilon)
    gates, ups = linear(middle_normalised, weights.gate), linear(middle_normalised, weights.up)
    result = sum_with_product(middle, silu(gates).mul_(ups), weights.down)
    raw = heads[:, :, : sum(layer.heads[:2])] if weights.query_norm is not None else None
    saved = Saved(
        states, normalised, inverse, raw, attended,
        middle, middle_normalised, middle_inverse, gates, ups,
    )  # fmt: skip
    return result, saved, more


def rotated(states: Tensor, turns: Tensor) -> Tensor:
    """States (..., D) with each pair multiplied by a complex number of `turns` (..., D / 2), contiguous."""
    pairs = torch.view_as_complex(states.float().unflatten(-1, (-1, 2)))
    result = torch.empty(pairs.shape, dtype=pairs.dtype)
    torch.mul(pairs, turns, out=result)
    return torch.view_as_real(result).flatten(-2).to(states.dtype)


def inverse_root(states: Tensor, epsilon: float) -> Tensor:
    """The inverse of the root of the mean square of the last dimension, in fp32."""
    norm = torch.linalg.vector_norm(states.float(), dim=-1, keepdim=True)
    result: Tensor = norm.square_().div_(states.shape[-1]).add_(epsilon).rsqrt_()
    return result


def normalise(states: Tensor, weight: Tensor, epsilon: float) -> tuple[Tensor, Tensor]:
    """States divided by the root of their mean square, times a weight; and the inverse of that root."""
    wide = states.float()
    inverse = inverse_root(wide, epsilon)
    return (wide * inverse).to(states.dtype).mul_(weight), inverse


@dataclass(frozen=True)
class TreeAttend:
    """Attention of packed rows. Saves queries, keys and values (B, heads, S, D), and the weights of each block if they are few."""

    blocks: tuple[QueryBlock, ...]
    most: int
    """Attention weights of a place that are saved; more of them are computed again."""

    def __call__(
        self, layer: Layer, places: Places, queries: Tensor, keys: Tensor, values: Tensor
    ) -> tuple[Tensor, Sequence[Tensor]]:
        """As in Attend."""
        turns = places.turns.transpose(1, 2)
        queries = rotated(queries.transpose(1, 2), turns * layer.scale)
        keys, values = rotated(keys.transpose(1, 2), turns), values.transpose(1, 2).contiguous()
        saved: list[Tensor] | None = [] if self._saves(places.shape[1], queries.shape[1]) else None
        grouped = queries.unflatten(1, (keys.shape[1], -1))
        attended = block_attention(grouped, keys, values, self.blocks, saved)
        return attended.flatten(2).flatten(0, 1), (grouped, keys, values, *(saved or ()))

    def _saves(self, width: int, heads: int) -> bool:
        scores = sum(
            (block.last - block.first) * (block.whole + block.hidden.shape[-1]) for block in self.blocks
        )
        return scores * heads <= width * self.most


def trained_states(
    layer: Layer, states: Tensor, places: Places, attend: TreeAttend, needed: Tensor | None
) -> Tensor:
    """A layer's output (K, H) for input (N, H), with gradients."""
    apply: Any = _TrainedLayer.apply  # torch has no types for it
    result: Tensor = apply(states, layer, places, attend, needed, *layer.weights)
    return result


class _TrainedLayer(torch.autograd.Function):
    """A layer with its gradients."""

    @staticmethod
    def forward(
        ctx: Any,
        states: Tensor,
        layer: Layer,
        places: Places,
        attend: TreeAttend,
        needed: Tensor | None,
        *weights: Tensor | None,
    ) -> Tensor:
        result, saved, attention = layer_states(layer, states, places, attend, needed)
        ctx.save_for_backward(needed, *saved, *attention)
        ctx.layer, ctx.places, ctx.blocks = layer, places, attend.blocks
        return result

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        needed, *tensors = ctx.saved_tensors
        saved, attention = Saved(*tensors[: len(Saved._fields)]), tensors[len(Saved._fields) :]
        of_middle, network = _network_gradients(ctx.layer.weights, gradients[0], saved)
        of_output = weight_gradient(saved.attended, of_middle)
        of_attended = linear(of_middle, ctx.layer.weights.output.t())
        if needed is not None:
            of_attended = _scattered(of_attended, needed, len(saved.input))
            of_middle = _scattered(of_middle, needed, len(saved.input))
        of_heads = _head_gradients(ctx, of_attended, attention)
        of_input, heads = _input_gradients(ctx.layer, of_heads, of_middle, saved)
        return of_input, None, None, None, None, *Weights(output=of_output, **network, **heads)


def _network_gradients(weights: Weights, gradient: Tensor, saved: Saved) -> tuple[Tensor, dict[str, Tensor]]:
    """Gradients of the input of the gated network and of its weights."""
    gates, ups, inputs = saved.gates, saved.ups, saved.middle_normalised
    of_product = linear(gradient, weights.down.t())
    activated = silu(gates)
    of_down = weight_gradient(activated * ups, gradient)
    of_ups = activated.mul_(of_product)
    of_gates = torch.ops.aten.silu_backward(of_product.mul_(ups), gates)
    of_inputs = sum_with_product(linear(of_gates, weights.gate.t()), of_ups, weights.up.t())
    of_middle, of_norm = _norm_gradients(
        of_inputs, saved.middle, saved.middle_inverse, weights.before_network, gradient
    )
    return of_middle, {
        "before_network": of_norm,
        "gate": weight_gradient(inputs, of_gates),
        "up": weight_gradient(inputs, of_ups),
        "down": of_down,
    }


def _head_gradients(ctx: Any, of_attended: Tensor, attention: Sequence[Tensor]) -> Tensor:
    """Gradients (B, S, heads, D) of queries, keys and values before their rotation, from those of attention's output (N, Q * D)."""
    layer, places = ctx.layer, ctx.places
    queries, keys, values, *weights = attention
    outputs = of_attended.view(*places.shape, *queries.shape[1:3], layer.head_size)
    of_queries, of_keys, of_values = attention_gradients(
        outputs.permute(0, 2, 3, 1, 4).contiguous(), queries, keys, values, ctx.blocks, weights
    )
    back = places.turns.conj().resolve_conj()
    of_heads = of_attended.new_empty(*places.shape, sum(layer.heads), layer.head_size)
    parts = of_heads.split(layer.heads, dim=2)
    _rotate_into(parts[0], of_queries.flatten(1, 2).transpose(1, 2), back * layer.scale)
    _rotate_into(parts[1], of_keys.transpose(1, 2), back)
    parts[2].copy_(of_values.transpose(1, 2))
    return of_heads


def _input_gradients(
    layer: Layer, of_heads: Tensor, gradient: Tensor, saved: Saved
) -> tuple[Tensor, dict[str, Any]]:
    """Gradients of the layer's input, plus `gradient`, and of the weights before attention."""
    weights = layer.weights
    norms: dict[str, Any] = {"query_norm": None, "key_norm": None}
    if saved.heads is not None:
        parts, raw = of_heads.split(layer.heads, dim=2)[:2], saved.heads.split(layer.heads[:2], dim=2)
        for name, part, states in zip(norms, parts, raw, strict=True):
            weight = layer.paired(getattr(weights, name))
            of_states, of_norm = _norm_gradients(
                part, states, inverse_root(states, layer.epsilon), weight, None
            )
            part.copy_(of_states)
            norms[name] = layer.halved(of_norm)
    flat, (joined, bias) = of_heads.flatten(2).flatten(0, 1), layer.joined
    of_input, of_norm = _norm_gradients(
        linear(flat, joined.t()), saved.input, saved.inverse, weights.before_attention, gradient
    )
    names, sizes = ("query", "key", "value"), [count * layer.head_size for count in layer.heads]
    result: dict[str, Any] = {"before_attention": of_norm, **norms}
    of_weights = weight_gradient(saved.normalised, flat).split(sizes)
    of_biases: Any = flat.sum(0).split(sizes) if bias is not None else (None, None, None)
    for name, of_weight, of_bias in zip(names, of_weights, of_biases, strict=True):
        paired = name != "value"
        result[name] = layer.halved(of_weight) if paired else of_weight
        result[f"{name}_bias"] = layer.halved(of_bias) if paired and of_bias is not None else of_bias
    return of_input, result


def _norm_gradients(
    gradient: Tensor, states: Tensor, inverse: Tensor, weight: Tensor, more: Tensor | None
) -> tuple[Tensor, Tensor]:
    """Gradients of the states of `normalise`, plus `more`, and of its weight."""
    size, dtype = states.shape[-1], gradient.dtype
    gradient, weight = gradient.float(), weight.float()
    unit = states.float() * inverse
    products = gradient * unit
    of_weight = products.reshape(-1, size).sum(0)
    mean = torch.matmul(products, weight / size).unsqueeze(-1)
    of_states = (gradient * weight).addcmul_(unit, mean, value=-1)
    total = of_states.mul_(inverse) if more is None else torch.addcmul(more.float(), of_states, inverse)
    return total.to(dtype), of_weight.to(dtype)


def _rotate_into(result: Tensor, states: Tensor, turns: Tensor) -> None:
    """Write `rotated` states (B, S, heads, D) to a tensor of any layout."""
    pairs = torch.view_as_complex(states.float().unflatten(-1, (-1, 2)))
    if result.dtype == torch.float32:
        torch.mul(pairs, turns, out=torch.view_as_complex(result.unflatten(-1, (-1, 2))))
    else:
        result.copy_(torch.view_as_real(pairs * turns).flatten(-2))


def _scattered(values: Tensor, needed: Tensor, count: int) -> Tensor:
    """Values (K, ...) at the needed places among `count`; zeros elsewhere."""
    return values.new_zeros(count, values.shape[1]).index_copy_(0, needed, values)


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
        states, places = self._begin(tokens, positions)
        for number, layer in enumerate(self.layers):
            chosen = needed if number == len(self.layers) - 1 else None
            states, _, _ = layer_states(layer, states, places, attend, chosen)
        return self._end(states)

    def trained_hidden(self, tokens: Tensor, positions: Tensor, mask: TreeMask, needed: Tensor) -> Tensor:
        """The same for packed rows, with gradients."""
        if not torch.is_grad_enabled():
            return self.hidden(tokens, positions, TreeAttend(mask.blocks, 0), needed)
        attend = TreeAttend(mask.blocks, len(self.layers[0].weights.gate))
        states, places = self._begin(tokens, positions)
        for number, layer in enumerate(self.layers):
            chosen = needed if number == len(self.layers) - 1 else None
            states = trained_states(layer, states, places, attend, chosen)
        return self._end(states)

    def _begin(self, tokens: Tensor, positions: Tensor) -> tuple[Tensor, Places]:
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
