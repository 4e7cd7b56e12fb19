"""Fused kernels: a model that gets them has the same results, or is as before; other models of its family are unaffected."""

import copy
import sys
from types import MethodType, ModuleType
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.training_core.llm.models.test_decoder import make_model
from training_core.llm.models.fused_kernels import FAMILIES, fuse, use_fused_kernels

TOKENS = torch.tensor([[3, 10, 17, 24, 31]])


class Scaled(torch.autograd.Function):
    """A norm's product with its weight; `wrong` scales the gradient of the weight."""

    @staticmethod
    def forward(ctx: Any, states: Tensor, weight: Tensor, wrong: float) -> Tensor:
        ctx.save_for_backward(states, weight)
        ctx.wrong = wrong
        return states * weight

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        states, weight = ctx.saved_tensors
        return gradients[0] * weight, (gradients[0] * states).sum((0, 1)) * ctx.wrong, None


def install(monkeypatch: pytest.MonkeyPatch, value: float = 1.0, gradient: float = 1.0) -> None:
    """A library in the place of liger-kernel, whose norms' results and gradients are multiplied by these factors."""

    def norm(self: Any, states: Tensor) -> Tensor:
        scale = (states.square().mean(-1, keepdim=True) + self.variance_epsilon).rsqrt()
        result: Any = Scaled.apply(states * scale, self.weight, gradient)  # type: ignore[no-untyped-call]
        return result * value

    def apply(model: Any, **options: bool) -> None:
        assert options == {
            "rope": True, "rms_norm": True, "swiglu": True, "cross_entropy": False, "fused_linear_cross_entropy": False,
        }  # fmt: skip
        family: Any = sys.modules[type(model).__module__]
        family.apply_rotary_pos_emb = None  # a kernel that fails on the CPU
        for name in [name for name in vars(family) if name.endswith(("RMSNorm", "MLP"))]:
            setattr(family, name, None)
        for part in (model.model.norm, *(layer.input_layernorm for layer in model.model.layers)):
            part.forward = MethodType(norm, part)
            part.in_place = True

    library: Any = ModuleType("liger_kernel.transformers")
    library._apply_liger_kernel_to_instance = apply
    monkeypatch.setitem(sys.modules, "liger_kernel.transformers", library)


def logits(model: Any) -> Tensor:
    with torch.no_grad():
        result: Tensor = model(input_ids=TOKENS).logits
    return result


@pytest.mark.parametrize("kind", FAMILIES)
def test_a_model_with_equal_results_is_fused_alone(monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    install(monkeypatch)
    model, other = make_model(kind), make_model(kind)
    expected = logits(other)
    assert fuse(model)
    assert "forward" in vars(model.model.norm)
    assert torch.allclose(logits(model), expected, atol=1e-5)
    assert torch.equal(logits(other), expected)
    assert torch.equal(logits(make_model(kind)), expected), "a model that is made later"
    reference = copy.deepcopy(model)
    model.model.norm.weight.data.zero_()
    assert torch.allclose(logits(reference), expected, atol=1e-5), "a copy uses its own weights"
    assert all(weight.grad is None for weight in model.parameters())


@pytest.mark.parametrize("wrong", [{"value": 1.01}, {"gradient": 1.1}])
def test_a_model_with_other_results_is_as_before(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, wrong: dict[str, float]
) -> None:
    install(monkeypatch, **wrong)
    model = make_model("qwen3")
    family: Any = sys.modules[type(model).__module__]
    expected, names = logits(model), dict(vars(family))
    assert not fuse(model)
    assert torch.equal(logits(model), expected)
    assert not {"forward", "in_place"} & set(vars(model.model.norm))
    assert dict(vars(family)) == names
    assert len(caplog.records) == 1


def test_a_missing_library_is_reported(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setitem(sys.modules, "liger_kernel", None)
    model = make_model()
    assert not fuse(model)
    assert "troupe[gpu]" in caplog.text


def test_a_model_on_the_cpu_is_unchanged(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch)
    model = make_model()
    assert not use_fused_kernels(model)
    assert "forward" not in vars(model.model.norm)
