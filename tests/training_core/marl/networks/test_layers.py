"""Layers without memory."""

import pytest
import torch

from training_core.marl.networks.layers import Tanh, layers
from training_core.marl.networks.registry import NETWORK_CONFIGS


def test_tanh_is_torchs_with_its_gradient() -> None:
    x = torch.cat([torch.linspace(-12, 12, 24_001), torch.tensor([-1e4, -1e-4, 0.0, 1e-4, 1e4])])
    ours, theirs = x.clone().requires_grad_(), x.double().requires_grad_()
    y, expected = Tanh()(ours), theirs.tanh()
    y.sum().backward()
    expected.sum().backward()
    assert ours.grad is not None and theirs.grad is not None
    torch.testing.assert_close(y.double(), expected, atol=1e-6, rtol=0)
    torch.testing.assert_close(ours.grad.double(), theirs.grad, atol=1e-6, rtol=0)


@pytest.mark.parametrize("scale", [1e-3, 0.1, 3.0])
def test_tanh_of_bf16_is_rounded_once(scale: float) -> None:
    x = (torch.linspace(-1, 1, 2001) * scale).bfloat16()
    y = Tanh()(x)
    assert y.dtype == torch.bfloat16
    torch.testing.assert_close(y.double(), x.double().tanh(), atol=1e-7, rtol=2**-8)


def test_names_of_weights_are_those_of_stored_checkpoints() -> None:
    config = NETWORK_CONFIGS["mlp"].model_validate({"hidden_dim": 4, "hidden_layers": 2})
    assert list(layers(config, 3).state_dict()) == ["0.weight", "0.bias", "2.weight", "2.bias"]
