"""Linear layers by oneDNN, on processors where torch's own matrix products are slow.

torch multiplies fp32 matrices with MKL, which uses AVX-512 on processors by Intel only; oneDNN, which is a part of torch too, uses
it on all. On an AMD EPYC with AVX-512 its products take half the time. Other processors, precisions and devices, and small
products, are computed as before. A layer with its activation function is one call of oneDNN, in fp32 and in bf16.
"""

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

_MIN_PRODUCTS = 2**21
"""Multiplications below which the call of oneDNN costs more than it saves."""
_MIN_FUSED = 2**19
"""The same for a layer with its activation function."""
FUSED = ("tanh", "relu")
"""Activation functions that can be computed with the layer before them."""


class OneDnnLinear(nn.Linear):
    """A linear layer whose large products are computed by oneDNN, in the backward pass too."""

    def forward(self, input: Tensor) -> Tensor:
        """As nn.Linear."""
        if _is_large(input, self.weight):
            return _layer(input, self.weight, self.bias, "none")
        return super().forward(input)


class ActivatedLinear(OneDnnLinear):
    """A linear layer and its activation function: a module that computes `name` ("tanh", "relu", or another one)."""

    def __init__(self, inputs: int, outputs: int, name: str, activation: nn.Module) -> None:
        super().__init__(inputs, outputs)
        self.name, self.activation = name, activation

    def forward(self, input: Tensor) -> Tensor:
        """(..., inputs) -> (..., outputs)."""
        if not is_faster():
            return self.activate(nn.Linear.forward(self, input))
        if input.numel() * self.out_features < _MIN_FUSED or not self._is_fused(input):
            return self.activate(super().forward(input))
        if not torch.is_autocast_enabled("cpu"):
            return _layer(input, self.weight, self.bias, self.name)
        input, weight, bias = (part.to(torch.bfloat16) for part in (input, self.weight, self.bias))
        return _layer(input, weight, bias, self.name)

    def activate(self, x: Tensor) -> Tensor:
        """The activation function alone."""
        result: Tensor = self.activation(x)
        return result

    def _is_fused(self, input: Tensor) -> bool:
        if self.name not in FUSED or torch.compiler.is_compiling():
            return False
        if not torch.is_autocast_enabled("cpu"):
            return _is_plain(input) and _is_plain(self.weight)
        on_host = input.device.type == self.weight.device.type == "cpu"
        return on_host and torch.get_autocast_dtype("cpu") is torch.bfloat16 and _has_bf16()


def linear(input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """The same for weights (O, I) and bias (O,) that belong to no nn.Linear."""
    if is_faster() and _is_large(input, weight):
        return _layer(input, weight, bias, "none")
    return nn.functional.linear(input, weight, bias)


def use_fast_products(model: nn.Module) -> None:
    """Compute a model's linear layers by oneDNN, where that is faster."""
    if not is_faster():
        return
    for part in model.modules():
        if type(part) is nn.Linear:
            part.__class__ = OneDnnLinear


@cache
def is_faster() -> bool:
    """Whether oneDNN is faster than MKL here: an AMD processor with AVX-512, and a torch with oneDNN."""
    return (
        _vendor() == "AuthenticAMD"
        and torch.backends.cpu.get_cpu_capability() == "AVX512"
        and hasattr(torch.ops.mkldnn, "_linear_pointwise")
    )


class _Linear(torch.autograd.Function):
    """A linear layer and its activation function, with their gradients."""

    @staticmethod
    def forward(ctx: Any, input: Tensor, weight: Tensor, bias: Tensor | None, activation: str) -> Tensor:
        output = product(input, weight, bias, activation)
        ctx.activation = activation
        ctx.save_for_backward(input, weight, *(() if activation == "none" else (output,)))
        return output

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        input, weight, *outputs = ctx.saved_tensors
        gradient, of_input, of_weight, of_bias = gradients[0], None, None, None
        if ctx.activation == "tanh":
            gradient = torch.ops.aten.tanh_backward(gradient, outputs[0])
        elif ctx.activation == "relu":
            gradient = torch.ops.aten.threshold_backward(gradient, outputs[0], 0)
        if ctx.needs_input_grad[0]:
            of_input = product(gradient, weight.t())
        flat = gradient.reshape(-1, gradient.shape[-1])
        if ctx.needs_input_grad[1]:
            of_weight = weight_gradient(input.reshape(-1, input.shape[-1]), flat)
        if ctx.needs_input_grad[2]:
            of_bias = flat.sum(0)
        return of_input, of_weight, of_bias, None


def product(input: Tensor, weight: Tensor, bias: Tensor | None = None, activation: str = "none") -> Tensor:
    """Input (..., I) times the transposed weight (O, I), plus bias (O,): (..., O). "tanh" and "relu" are applied to it."""
    result: Tensor = torch.ops.mkldnn._linear_pointwise(input, weight, bias, activation, [], "")
    return result


def weight_gradient(inputs: Tensor, gradient: Tensor) -> Tensor:
    """The transposed gradient (R, O) times the inputs (R, I): (O, I)."""
    # Of two equal products, the faster one. In bf16, torch's own uses oneDNN.
    large = inputs.numel() * gradient.shape[1] >= _MIN_FUSED and _is_plain(inputs)
    multiply: Callable[[Tensor, Tensor], Tensor] = _times if is_faster() and large else torch.mm
    if inputs.shape[1] >= gradient.shape[1]:
        return multiply(gradient.t(), inputs)
    return multiply(inputs.t(), gradient).t()


def sum_with_product(other: Tensor, input: Tensor, weight: Tensor) -> Tensor:
    """Other (N, O) plus input (N, I) times the transposed weight (O, I), without gradients."""
    if is_faster() and _is_large(input, weight):
        result: Tensor = torch.ops.mkldnn._linear_pointwise.binary(input, other, weight, None, "add")
        return result
    return torch.addmm(other, input, weight.t())


def _times(first: Tensor, second: Tensor) -> Tensor:
    return product(first, second.t())


def _layer(input: Tensor, weight: Tensor, bias: Tensor | None, activation: str) -> Tensor:
    if torch.is_grad_enabled() and (input.requires_grad or weight.requires_grad):
        apply: Any = _Linear.apply  # torch has no types for it
        result: Tensor = apply(input, weight, bias, activation)
        return result
    return product(input, weight, bias, activation)


def _is_large(input: Tensor, weight: Tensor) -> bool:
    return input.numel() * len(weight) >= _MIN_PRODUCTS and _is_plain(input) and _is_plain(weight)


def _is_plain(tensor: Tensor) -> bool:
    return (
        tensor.dtype is torch.float32 and tensor.device.type == "cpu" and not torch.is_autocast_enabled("cpu")
    )


@cache
def _has_bf16() -> bool:
    """Whether oneDNN has products in bf16 here."""
    supported: Any = getattr(torch.ops.mkldnn, "_is_mkldnn_bf16_supported", lambda: False)
    return bool(supported())


def _vendor() -> str:
    """The processor's maker; empty where Linux does not report it."""
    report = Path("/proc/cpuinfo")
    lines = report.read_text().splitlines() if report.exists() else []
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("vendor_id")), "")
