"""Fixtures of the tests of engines, for the fixture `model` of a test file."""

import pytest
import torch
from transformers import PreTrainedModel


@pytest.fixture
def passes(model: PreTrainedModel, request: pytest.FixtureRequest) -> list[int]:
    """Number of tokens of each pass through the model, with padding."""
    seen: list[int] = []

    def count(table: torch.nn.Module, inputs: tuple[torch.Tensor, ...], output: object) -> None:
        seen.append(inputs[0].numel())

    hook = model.get_input_embeddings().register_forward_hook(count)
    request.addfinalizer(hook.remove)
    return seen
