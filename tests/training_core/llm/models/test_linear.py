"""Linear layers by oneDNN compute what torch's own compute."""

import copy

import pytest
import torch
from torch import nn

from tests.training_core.llm.toys import make_model
from training_core.llm.models import linear
from training_core.llm.models.linear import OneDnnLinear, use_fast_products

pytestmark = pytest.mark.skipif(
    not hasattr(torch.ops.mkldnn, "_linear_pointwise"), reason="this torch has no oneDNN"
)


@pytest.mark.parametrize(("inputs", "outputs"), [(96, 64), (64, 96)])
@pytest.mark.parametrize("bias", [True, False])
def test_outputs_and_gradients_are_those_of_torch(
    inputs: int, outputs: int, bias: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(linear, "_MIN_PRODUCTS", 0)
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
    monkeypatch.setattr(linear, "is_faster", lambda: True)
    model, expected = make_model(), make_model().state_dict()
    use_fast_products(model)
    exchanged = [part for part in model.modules() if isinstance(part, nn.Linear)]
    assert exchanged and all(type(part) is OneDnnLinear for part in exchanged)
    assert all(torch.equal(tensor, expected[name]) for name, tensor in model.state_dict().items())
    assert copy.deepcopy(model).lm_head.weight is not model.lm_head.weight


def test_other_precisions_are_computed_as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(linear, "_MIN_PRODUCTS", 0)
    layer = nn.Linear(64, 64).to(torch.bfloat16)
    states = torch.randn(8, 64, dtype=torch.bfloat16)
    expected = layer(states)
    layer.__class__ = OneDnnLinear
    assert torch.equal(layer(states), expected)
