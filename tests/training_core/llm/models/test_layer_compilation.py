"""Compiled layers: the same logprobs and gradients, and one compilation for all layers."""

import copy
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch._dynamo import lookup_backend

from tests.training_core.llm.compilations import Counter
from tests.training_core.llm.models.test_decoder import logprobs_and_gradients, make_batch, make_model
from tests.training_core.llm.models.test_fused_kernels import logits
from training_core.llm.learning.token_logprobs import ResponseForward
from training_core.llm.models.evaluation import recompute_activations, training_passes
from training_core.llm.models.fused_kernels import compile_for_updates, compile_layers

SIZES = (8, 3, 5)
"""Prompts of batches with different numbers of rows, and different widths."""


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:The .grad attribute:UserWarning")  # torch's own
@pytest.mark.parametrize("attention", [pytest.param("mask", marks=pytest.mark.extended), "auto"])
@pytest.mark.parametrize(
    "recomputes", [False, pytest.param(True, marks=pytest.mark.extended)], ids=["stored", "recomputed"]
)
def test_four_layers_are_compiled_once(attention: str, recomputes: bool) -> None:
    """A layer with an explicit mask is one graph; with attention by blocks, what comes before and after it are four."""
    counter = Counter(lookup_backend("aot_eager"))
    model = make_model("qwen3", num_hidden_layers=4)
    forward = ResponseForward(model, attention)
    forward.fused = False
    if recomputes:
        recompute_activations(model)
    assert forward.packs and forward.splits and forward.on_cpu == (attention == "auto")

    def results(prompts: int) -> list[torch.Tensor]:
        with training_passes(model):
            return logprobs_and_gradients(forward, make_batch(prompts))

    expected = [results(prompts) for prompts in SIZES]
    assert compile_layers(model, counter)
    assert counter.graphs == 1, "the trial, without a mask"
    counts = []
    for prompts, wanted in zip(SIZES, expected, strict=True):
        for actual, one in zip(results(prompts), wanted, strict=True):
            assert float((actual - one).abs().max()) <= 1e-6 * max(float(one.abs().max()), 1.0)
        counts.append(counter.graphs)
    assert counts == ([2, 3, 3] if attention == "mask" else [5, 9, 9]), "one size, then all others"


@pytest.mark.slow
def test_a_copy_computes_with_its_own_weights() -> None:
    counter = Counter()
    model = make_model()
    expected = logits(model)
    assert compile_layers(model, counter)
    other = copy.deepcopy(model)
    model.base_model.layers[0].mlp.down_proj.weight.data.zero_()
    compiled = counter.graphs
    assert torch.allclose(logits(other), expected, atol=1e-6) and counter.graphs > compiled
    assert not torch.allclose(logits(model), expected, atol=1e-3)


def fails(graph: Any, inputs: Any) -> Any:
    raise RuntimeError("no compiler")


def wrong(graph: Any, inputs: Any) -> Any:
    return lambda *args: tuple(1.1 * item for item in graph.forward(*args))


@pytest.mark.parametrize("compiler", [fails, wrong])
def test_a_model_whose_layers_do_not_compile_is_as_before(
    compiler: Any, caplog: pytest.LogCaptureFixture
) -> None:
    model = make_model()
    expected = logits(model)
    assert not compile_layers(model, Counter(compiler))
    assert torch.equal(logits(model), expected) and "not compiled" in caplog.text
    assert not any("forward" in vars(part) for part in model.modules())


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, True),
        ({"config": SimpleNamespace(model_type="mamba")}, False),
        ({"device": torch.device("cpu")}, False),
        ({"num_parameters": lambda: 10**7}, False),
        ({"modules": lambda: [SimpleNamespace(forward="of liger-kernel")]}, False),
    ],
)
def test_large_models_on_a_gpu_without_fused_kernels_are_compiled(
    changes: dict[str, Any], expected: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    usual = {
        "config": SimpleNamespace(model_type="qwen3"),
        "device": torch.device("cuda"),
        "num_parameters": lambda: 10**9,
        "modules": lambda: [SimpleNamespace()],
    }
    monkeypatch.setattr("training_core.llm.models.fused_kernels.compile_layers", lambda model: True)
    model: Any = SimpleNamespace(**usual | changes)
    assert compile_for_updates(model) is expected
