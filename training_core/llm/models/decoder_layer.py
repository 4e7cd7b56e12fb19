"""A fused decoder layer (see decoder.py for the letters; its gradients are in decoder_gradients.py).

Norm, attention and a gated network, each added to its input: Llama (arXiv 2302.13971), with biases as in Qwen2 and norms of query
and key as in Qwen3. Attention is passed in: a tree of packed rows (tree_attention.py), or the store of an engine.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, Protocol

import torch
from torch import Tensor
from torch.nn.functional import silu

from training_core.fast_linear import linear, sum_with_product


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
