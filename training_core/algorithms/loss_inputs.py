"""The inputs of a policy loss. T response tokens of R responses, flat over a batch."""

from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True)
class Tokens:
    """The sampled tokens."""

    logprobs: Tensor
    """(T,) of the policy under training; with gradient."""
    old_logprobs: Tensor
    """(T,) of the policy in the ratio's denominator."""
    advantages: Tensor
    """(T,)"""
    lengths: Tensor
    """(R,) tokens per response; the responses are concatenated."""


@dataclass(frozen=True)
class Bounds:
    """Bounds of the probability ratio."""

    low: float
    high: float
    dual: float = 0.0
