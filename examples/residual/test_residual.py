"""Residual networks."""

import torch

from examples.residual.config import Residual
from examples.residual.residual import ResidualBackbone


def test_blocks_add_to_their_input() -> None:
    backbone = ResidualBackbone(Residual(hidden_dim=4, blocks=3), 2)
    for parameter in backbone.blocks.parameters():
        torch.nn.init.zeros_(parameter)
    x = torch.randn(5, 2)
    assert torch.equal(backbone.step(x, ())[0], backbone.first(x))
    assert torch.equal(
        backbone.sequence(x[None], (), torch.zeros(1, 5, dtype=torch.bool))[0], backbone.first(x)
    )
