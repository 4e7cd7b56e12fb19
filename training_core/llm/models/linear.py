"""Linear layers in fp32 by oneDNN, on processors where torch's own matrix products are slow.

torch multiplies fp32 matrices with MKL, which uses AVX-512 on processors by Intel only; oneDNN, which is a part of torch too, uses
it on all. On an AMD EPYC with AVX-512 its products take half the time. Other processors, precisions and devices, and small
products, are computed as before.
"""

from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

_MIN_PRODUCTS = 2**21
"""Multiplications below which the call of oneDNN costs more than it saves."""


class OneDnnLinear(nn.Linear):
    """A linear layer whose large products are computed by oneDNN, in the backward pass too."""

    def forward(self, input: Tensor) -> Tensor:
        """As nn.Linear."""
        weight, bias = self.weight, self.bias
        large = input.numel() * len(weight) >= _MIN_PRODUCTS
        if not large or not _is_plain(input) or not _is_plain(weight):
            return super().forward(input)
        if torch.is_grad_enabled() and (input.requires_grad or weight.requires_grad):
            apply: Any = _Linear.apply  # torch has no types for it
            result: Tensor = apply(input, weight, bias)
            return result
        return _product(input, weight, bias)


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
    """A linear layer with its gradients."""

    @staticmethod
    def forward(ctx: Any, input: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        ctx.save_for_backward(input, weight)
        return _product(input, weight, bias)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        input, weight = ctx.saved_tensors
        gradient, of_input, of_weight, of_bias = gradients[0], None, None, None
        if ctx.needs_input_grad[0]:
            of_input = _product(gradient, weight.t())
        flat = gradient.reshape(-1, gradient.shape[-1])
        if ctx.needs_input_grad[1]:
            inputs = input.reshape(-1, input.shape[-1])
            wide = inputs.shape[1] >= flat.shape[1]  # the faster of two equal products
            of_weight = _product(flat.t(), inputs.t()) if wide else _product(inputs.t(), flat.t()).t()
        if ctx.needs_input_grad[2]:
            of_bias = flat.sum(0)
        return of_input, of_weight, of_bias


def _product(input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Input (..., I) times the transposed weight (O, I), plus bias (O,): (..., O)."""
    result: Tensor = torch.ops.mkldnn._linear_pointwise(input, weight, bias, "none", [], "")
    return result


def _is_plain(tensor: Tensor) -> bool:
    return tensor.dtype is torch.float32 and tensor.device.type == "cpu"


def _vendor() -> str:
    """The processor's maker; empty where Linux does not report it."""
    report = Path("/proc/cpuinfo")
    lines = report.read_text().splitlines() if report.exists() else []
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("vendor_id")), "")
