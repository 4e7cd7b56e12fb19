"""The published sizes against transformers' own model of these sizes, and against the known numbers of parameters."""

import pytest
import torch
from transformers import AutoConfig, AutoModelForCausalLM

from training_core.llm.base_models.packaged import packaged_shape
from training_core.llm.base_models.published import PUBLISHED

PARAMETERS = {
    "Qwen/Qwen3-0.6B": 596_049_920,
    "Qwen/Qwen3-1.7B": 1_720_574_976,
    "Qwen/Qwen3-4B": 4_022_468_096,
    "Qwen/Qwen3-8B": 8_190_735_360,
    "Qwen/Qwen2.5-0.5B-Instruct": 494_032_768,
    "Qwen/Qwen2.5-1.5B-Instruct": 1_543_714_304,
    "Qwen/Qwen2.5-3B-Instruct": 3_085_938_688,
    "Qwen/Qwen2.5-7B-Instruct": 7_615_616_512,
    "HuggingFaceTB/SmolLM2-135M-Instruct": 134_515_008,
    "HuggingFaceTB/SmolLM2-360M-Instruct": 361_821_120,
    "HuggingFaceTB/SmolLM2-1.7B-Instruct": 1_711_376_384,
}
"""Of the safetensors files, as the models' pages state them."""


@pytest.mark.parametrize(("name", "parameters"), PARAMETERS.items())
def test_parameters_are_those_of_the_published_weights(name: str, parameters: int) -> None:
    assert PUBLISHED[name].parameters == parameters


def test_a_model_of_these_sizes_has_these_parameters() -> None:
    """Built by transformers without memory: its own modules decide where biases and scales are."""
    for name, kind in (("Qwen/Qwen3-0.6B", "qwen3"), ("Qwen/Qwen2.5-7B", "qwen2")):
        shape = PUBLISHED[name]
        config = AutoConfig.for_model(
            kind, num_hidden_layers=shape.layers, hidden_size=shape.hidden, num_attention_heads=shape.heads,
            num_key_value_heads=shape.key_value_heads, head_dim=shape.head_size, vocab_size=shape.vocabulary,
            intermediate_size=shape.intermediate, tie_word_embeddings=name.endswith("0.6B"),
        )  # fmt: skip
        with torch.device("meta"):
            assert AutoModelForCausalLM.from_config(config).num_parameters() == shape.parameters


def test_a_model_that_a_package_ships_has_the_same_sizes() -> None:
    assert PUBLISHED["HuggingFaceTB/SmolLM2-135M-Instruct"] == packaged_shape("smollm2")
