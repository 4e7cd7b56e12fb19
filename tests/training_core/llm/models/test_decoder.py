"""Fused layers give the logits and gradients of transformers' modules."""

import random
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.functional import log_softmax
from transformers import (
    LlamaConfig,
    LlamaForCausalLM,
    MistralConfig,
    MistralForCausalLM,
    PreTrainedModel,
    Qwen2Config,
    Qwen2ForCausalLM,
    Qwen3Config,
    Qwen3ForCausalLM,
)

from training_core.fast_linear import use_fast_products
from training_core.llm.generation.prefix_tree import supports_prefix_tree
from training_core.llm.learning.packing import RowBatch, collate, tree_rows
from training_core.llm.learning.token_logprobs import ResponseForward
from training_core.llm.models.decoder import decoder_of
from training_core.llm.models.evaluation import recompute_activations
from training_core.types import Answer, Group

KINDS: dict[str, tuple[Any, Any, dict[str, Any]]] = {
    "llama": (LlamaConfig, LlamaForCausalLM, {}),
    "mistral": (MistralConfig, MistralForCausalLM, {"sliding_window": None}),
    "qwen2": (Qwen2Config, Qwen2ForCausalLM, {}),
    "qwen3": (Qwen3Config, Qwen3ForCausalLM, {"head_dim": 16}),
}


def make_model(kind: str = "llama", hidden: int = 32, **changes: Any) -> PreTrainedModel:
    """A random model with two layers, whose norms and biases are not those of the start."""
    config, model_class, more = KINDS[kind]
    torch.manual_seed(0)
    sizes = {"vocab_size": 40, "hidden_size": hidden, "intermediate_size": 3 * hidden, "num_hidden_layers": 2}
    heads = {"num_attention_heads": 4, "num_key_value_heads": 2}
    model: PreTrainedModel = model_class(config(**sizes | heads | more | changes)).eval()
    with torch.no_grad():
        for weight in model.parameters():
            if weight.ndim == 1:
                weight += 0.1 * torch.randn_like(weight)
    use_fast_products(model)
    return model


def make_batch(prompts: int = 8) -> RowBatch:
    """Packed rows of prompts of several lengths, each with answers that share prefixes."""
    dice = random.Random(0)

    def text(length: int) -> list[int]:
        return [dice.randrange(40) for _ in range(length)]

    groups = []
    for number in range(prompts):
        begin = text(6)
        texts = [begin[: dice.randrange(5)] + text(dice.randrange(1, 9)) for _ in range(6)]
        answers = [Answer(tokens, [], [], "length", "") for tokens in texts]
        groups.append(Group(str(number), 0, text(dice.randrange(4, 30)), answers, [], [], 1.0, 0, 1.0))
    rows = tree_rows(groups, range(prompts), 1000)
    return collate(rows, 0, packed=True, device=torch.device("cpu"))


def logprobs_and_gradients(forward: ResponseForward, batch: RowBatch) -> list[Tensor]:
    model = forward.model
    model.zero_grad()
    logprobs = log_softmax(forward.logits(model, batch), -1)[batch.node_indices, batch.targets]
    (logprobs * torch.linspace(-1, 1, len(logprobs))).sum().backward()
    return [logprobs.detach(), *(weight.grad.clone() for weight in model.parameters())]  # type: ignore[union-attr]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("saves", [True, False])
def test_logprobs_and_gradients_are_those_of_the_modules(
    kind: str, saves: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("training_core.llm.models.decoder.TreeAttend._saves", lambda *_: saves)
    forward = ResponseForward(make_model(kind))
    assert forward.packs and forward.fused
    results = []
    for forward.fused in (True, False):
        results.append(logprobs_and_gradients(forward, make_batch()))
    for actual, expected in zip(*results, strict=True):
        assert float((actual - expected).abs().max()) < 1e-5 * max(float(expected.abs().max()), 1.0)


@pytest.mark.parametrize("kind", KINDS)
def test_a_pass_without_gradients_gives_the_same_logits(kind: str) -> None:
    forward, batch = ResponseForward(make_model(kind)), make_batch()
    assert forward.fused
    with torch.no_grad():
        actual = forward.logits(forward.model, batch)
    assert torch.equal(actual, forward.logits(forward.model, batch).detach())


def test_products_of_many_places_give_the_modules_gradients() -> None:
    """Products that oneDNN computes, where it is used."""
    forward, batch = ResponseForward(make_model(hidden=128)), make_batch(24)
    results = []
    for forward.fused in (True, False):
        results.append(logprobs_and_gradients(forward, batch))
    for actual, expected in zip(*results, strict=True):
        assert float((actual - expected).abs().max()) < 1e-4 * max(float(expected.abs().max()), 1.0)


@pytest.mark.parametrize("kind", KINDS)
def test_an_engine_computes_these_models_by_hand(kind: str) -> None:
    assert supports_prefix_tree(make_model(kind), fused=True)


def test_in_bf16_the_logits_are_those_of_the_modules_within_rounding() -> None:
    forward = ResponseForward(make_model("qwen3").to(torch.bfloat16))
    assert forward.fused and supports_prefix_tree(forward.model, fused=True)


def test_a_layer_with_a_hook_is_called() -> None:
    model = make_model()
    hook = model.base_model.layers[1].mlp.up_proj.register_forward_hook(lambda *_: None)
    assert decoder_of(model) is None
    hook.remove()
    assert decoder_of(model) is not None


def test_layers_with_other_parts_are_not_computed_by_hand() -> None:
    assert decoder_of(make_model(hidden_act="gelu")) is None
    assert decoder_of(make_model(attention_bias=True)) is None, "the output has a bias"
    model = make_model()
    model.base_model.layers[0].mlp.up_proj = torch.nn.Sequential(model.base_model.layers[0].mlp.up_proj)
    assert decoder_of(model) is None, "an adapter, for example"


def test_with_activation_checkpointing_the_modules_are_used() -> None:
    model = make_model()
    recompute_activations(model)
    assert decoder_of(model) is None
