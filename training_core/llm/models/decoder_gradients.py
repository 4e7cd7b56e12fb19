"""The gradients of a fused decoder layer, on packed rows (see decoder.py for the letters)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import silu

from training_core.fast_linear import linear, sum_with_product, weight_gradient
from training_core.llm.models.decoder_layer import (
    Layer,
    Places,
    Saved,
    Weights,
    inverse_root,
    layer_states,
    rotated,
)
from training_core.llm.models.tree_attention import QueryBlock, attention_gradients, block_attention


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
