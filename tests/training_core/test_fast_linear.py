"""Linear layers by oneDNN compute what torch's own compute."""

import copy

import pytest
import torch
from torch import nn

from tests.training_core.llm.toys import make_model
from training_core import fast_linear
from training_core.fast_linear import ActivatedLinear, OneDnnLinear, use_fast_products

pytestmark = pytest.mark.skipif(
    not hasattr(torch.ops.mkldnn, "_linear_pointwise"), reason="this torch has no oneDNN"
)


@pytest.mark.parametrize(("inputs", "outputs"), [(96, 64), (64, 96)])
@pytest.mark.parametrize("bias", [True, False])
def test_outputs_and_gradients_are_those_of_torch(
    inputs: int, outputs: int, bias: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fast_linear, "_MIN_PRODUCTS", 0)
    torch.manual_seed(0)
    plain = nn.Linear(inputs, outputs, bias=bias)
    fast = copy.deepcopy(plain)
    fast.__class__ = OneDnnLinear
    states = torch.randn(3, 50, inputs)
    results = []
    for layer in (plain, fast):
        own = states.clone().requires_grad_()
        output = layer(own)
        output.square().sum().backward()
        results.append([output, own.grad, *(weight.grad for weight in layer.parameters())])
    assert type(results[1][0].grad_fn).__name__ == "_LinearBackward"
    for expected, actual in zip(*results, strict=True):
        assert torch.allclose(actual, expected, rtol=1e-4, atol=1e-4)
    with torch.no_grad():
        assert torch.allclose(fast(states), plain(states), atol=1e-5)


def test_only_a_models_linear_layers_are_exchanged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fast_linear, "is_faster", lambda: True)
    model, expected = make_model(), make_model().state_dict()
    use_fast_products(model)
    exchanged = [part for part in model.modules() if isinstance(part, nn.Linear)]
    assert exchanged and all(type(part) is OneDnnLinear for part in exchanged)
    assert all(torch.equal(tensor, expected[name]) for name, tensor in model.state_dict().items())
    assert copy.deepcopy(model).lm_head.weight is not model.lm_head.weight


def test_other_precisions_are_computed_as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fast_linear, "_MIN_PRODUCTS", 0)
    layer = nn.Linear(64, 64).to(torch.bfloat16)
    states = torch.randn(8, 64, dtype=torch.bfloat16)
    expected = layer(states)
    layer.__class__ = OneDnnLinear
    assert torch.equal(layer(states), expected)


def results(layer: nn.Module, x: torch.Tensor) -> list[torch.Tensor]:
    """Outputs, and gradients of the inputs and the weights."""
    own = x.clone().requires_grad_()
    output = layer(own)
    (output * torch.linspace(-1, 1, output.numel()).view_as(output)).sum().backward()
    gradients = [tensor.grad for tensor in (own, *layer.parameters()) if tensor.grad is not None]
    return [output, *gradients]


@pytest.mark.parametrize(("inputs", "outputs"), [(40, 64), (64, 40)])
@pytest.mark.parametrize(
    ("name", "activation"), [("tanh", nn.Tanh()), ("relu", nn.ReLU()), ("gelu", nn.GELU())]
)
def test_a_layer_with_its_activation_is_that_of_torch(
    inputs: int, outputs: int, name: str, activation: nn.Module, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fast_linear, "is_faster", lambda: True)
    monkeypatch.setattr(fast_linear, "_MIN_FUSED", 0)
    torch.manual_seed(0)
    layer = ActivatedLinear(inputs, outputs, name, activation)
    plain = nn.Sequential(nn.Linear(inputs, outputs), activation)
    plain[0].load_state_dict(layer.state_dict())
    x = torch.randn(3, 50, inputs)
    fused, expected = results(layer, x), results(plain, x)
    assert (type(fused[0].grad_fn).__name__ == "_LinearBackward") == (name in fast_linear.FUSED)
    assert len(fused) == len(expected) == 4
    for own, other in zip(fused, expected, strict=True):
        torch.testing.assert_close(own, other, rtol=1e-4, atol=1e-4)
    with torch.no_grad():
        torch.testing.assert_close(layer(x), plain(x), rtol=1e-5, atol=1e-5)


@pytest.mark.skipif(not fast_linear._has_bf16(), reason="this processor has no products in bf16")
@pytest.mark.parametrize("name", ["tanh", "relu"])
def test_autocast_computes_a_layer_with_its_activation_in_bf16(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fast_linear, "is_faster", lambda: True)
    torch.manual_seed(0)
    layer = ActivatedLinear(64, 96, name, {"tanh": nn.Tanh(), "relu": nn.ReLU()}[name])
    x = torch.randn(3, 50, 64)
    computed = []
    for least in (0, 2**40):
        monkeypatch.setattr(fast_linear, "_MIN_FUSED", least)
        layer.zero_grad()
        with torch.autocast("cpu", torch.bfloat16):
            computed.append([part.clone() for part in results(layer, x)])
    assert computed[0][0].dtype is torch.bfloat16 and computed[0][2].dtype is torch.float32
    for own, other in zip(*computed, strict=True):
        torch.testing.assert_close(own.float(), other.float(), rtol=0.05, atol=0.05)
