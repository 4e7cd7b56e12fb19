"""A store's attention in compiled layers: all layers are compiled once."""

import numpy as np
import pytest
import torch
from torch import Tensor
from transformers import PreTrainedModel

from tests.training_core.llm.compilations import Counter
from tests.training_core.llm.models.test_decoder import make_model
from training_core.llm.generation.prefix_tree import PrefixTreeStore, supports_prefix_tree


@torch.no_grad()
def passes(model: PreTrainedModel, counter: Counter) -> tuple[list[Tensor], list[int]]:
    """Logits of a prompt's pass and of three steps, and how many graphs had been compiled after each."""
    store = PrefixTreeStore(model, 4)
    logits, counts = [store.prefill([[3, 4, 5, 6, 7], [8, 9, 10]])], [counter.graphs]
    for parents in ([0, 0, 1], [0, 1, 2, 2], [0, 3]):
        logits.append(store.decode(np.array(parents), np.arange(5, 5 + len(parents))))
        counts.append(counter.graphs)
    return logits, counts


@pytest.mark.slow
@pytest.mark.parametrize("kind", [pytest.param("llama", marks=pytest.mark.extended), "qwen3"])
def test_four_layers_are_compiled_once(kind: str) -> None:
    counter = Counter()
    model = make_model(kind, num_hidden_layers=4)
    expected, _ = passes(model, counter)
    body = model.base_model
    for layer in body.layers:  # type: ignore[union-attr]
        layer.compile(backend=counter)
    logits, counts = passes(model, counter)
    assert counts == [1, 2, 2, 2], "one for the first size, one for all others"
    assert all(torch.equal(one, other) for one, other in zip(logits, expected, strict=True))
    assert supports_prefix_tree(model), "its trial calls the model without a store, too"
