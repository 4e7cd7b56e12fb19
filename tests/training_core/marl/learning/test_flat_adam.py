"""FlatAdam of recurrent networks: the layout of their weights in memory."""

from itertools import accumulate

import pytest
import torch
from torch import nn

from training_core.marl.learning.flat_adam import FlatAdam
from training_core.marl.networks.agents import Networks, make_network
from training_core.marl.networks.registry import NETWORK_CONFIGS

AGENTS, INPUTS = 2, 5


def as_for_cudnn(cells: nn.RNNBase) -> list[nn.Parameter]:
    """A layer's weights in cuDNN's order: the matrices of all layers, then all biases."""
    return sorted(cells.parameters(), key=lambda parameter: parameter.dim() == 1)


def flatten_parameters(cells: nn.RNNBase) -> None:
    """As torch does on a GPU; on the CPU it does nothing."""
    ordered = as_for_cudnn(cells)
    sizes = [parameter.numel() for parameter in ordered]
    memory = torch.cat([parameter.detach().reshape(-1) for parameter in ordered])
    for parameter, part in zip(ordered, memory.split(sizes), strict=True):
        parameter.data = part.view_as(parameter)


def in_one_piece(network: nn.Module) -> bool:
    """Whether cuDNN takes the weights of every recurrent layer without a copy."""
    for cells in (module for module in network.modules() if isinstance(module, nn.RNNBase)):
        ordered = as_for_cudnn(cells)
        offsets = [0, *accumulate(parameter.numel() for parameter in ordered)]
        if [parameter.storage_offset() for parameter in ordered] != offsets[:-1]:
            return False
        if len({parameter.untyped_storage().data_ptr() for parameter in ordered}) > 1:
            return False
    return True


def made(kind: str, shared: bool) -> Networks:
    torch.manual_seed(3)
    fields = {"hidden_dim": 6, "recurrent_hidden_dim": 4, "recurrent_layers": 2, "share_parameters": shared}
    return make_network(NETWORK_CONFIGS[kind].model_validate(fields), INPUTS, 3, AGENTS, 1.0).to("cpu")


def squares(network: Networks, step: int) -> torch.Tensor:
    x = torch.randn(7, 2, AGENTS, INPUTS, generator=torch.Generator().manual_seed(step))
    return network.sequence(x, network.start(2), torch.zeros(7, 2, dtype=torch.bool)).square().mean()


@pytest.mark.parametrize("kind", ["gru", "lstm"])
@pytest.mark.parametrize("shared", [True, False])
def test_recurrent_weights_learn_and_are_loaded_in_one_piece(
    kind: str, shared: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nn.RNNBase, "flatten_parameters", flatten_parameters)
    network, plain = made(kind, shared), made(kind, shared)
    ours = FlatAdam(network, weight_decay=0.01, max_norm=0.0)
    ours.set_learning_rate(0.01)
    theirs = torch.optim.AdamW(plain.parameters(), lr=0.01, eps=1e-5, weight_decay=0.01)
    for step in range(3):
        ours.zero_gradients()
        squares(network, step).backward()
        ours.step()
        theirs.zero_grad()
        squares(plain, step).backward()
        theirs.step()
    for mine, other in zip(network.parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(mine, other)
    network.load_state_dict({name: weight + 1 for name, weight in plain.state_dict().items()})
    torch.testing.assert_close(
        ours.weights, torch.cat([weight.flatten() + 1 for weight in plain.parameters()])
    )
    assert in_one_piece(network)
