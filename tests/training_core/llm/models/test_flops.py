"""Model FLOPs against torch's own count of a real model's forward pass, and by hand."""

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedModel, Qwen3Config, Qwen3ForCausalLM

from training_core.llm.learning.packing import rows_work, single_rows, tree_rows
from training_core.llm.models.flops import Work, forward_flops, generation_work, peak_of, shape_of
from training_core.llm.models.shape import ModelShape
from training_core.types import Answer, Group, NoiseKey, Prompt

SIZES = {
    "vocab_size": 50, "hidden_size": 32, "intermediate_size": 44, "num_hidden_layers": 3, "num_attention_heads": 4,
    "num_key_value_heads": 2, "attn_implementation": "eager",
}  # fmt: skip


def answer(*tokens: int) -> Answer:
    return Answer(list(tokens), [0.0] * len(tokens), [0] * len(tokens), "stop", "")


@pytest.mark.parametrize(
    "made", [LlamaForCausalLM(LlamaConfig(**SIZES)), Qwen3ForCausalLM(Qwen3Config(**SIZES, head_dim=16))]
)
def test_a_forward_pass_is_what_torch_counts(made: PreTrainedModel) -> None:
    rows, length = 2, 7
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        made(input_ids=torch.ones(rows, length, dtype=torch.long), use_cache=False)
    shape = shape_of(made.config)
    places = rows * length
    assert (
        shape and forward_flops(shape, Work(places, places * length, places)) == counter.get_total_flops()
    ), "eager attention computes what is masked, too"


def test_a_forward_pass_by_hand() -> None:
    shape = ModelShape(0, 2, 4, 2, 1, 2, 6, 10, 0)
    # a layer's weights: query and output 4x4, key and value 4x2, MLP three of 4x6: 32 + 16 + 72 = 120
    linear = 2 * 2 * 120 * 5
    attention = 2 * 2 * (2 * 2) * 15 * 2  # two products, two FLOPs, 2 heads of 2, 15 pairs, 2 layers
    assert forward_flops(shape, Work(5, 15, 3)) == linear + attention + 2 * 4 * 10 * 3


def test_architectures_that_are_not_known_have_no_shape() -> None:
    assert shape_of(LlamaConfig(**SIZES)) is not None
    assert shape_of(object()) is None
    windowed = Qwen3Config(**SIZES, use_sliding_window=True, max_window_layers=1, sliding_window=4)
    assert "sliding_attention" in windowed.layer_types and shape_of(windowed) is None


@pytest.mark.parametrize(
    ("device", "precision", "tera"),
    [
        ("NVIDIA H100 80GB HBM3", "bf16", 989.4), ("NVIDIA H100 PCIe", "bf16", 756.0), ("NVIDIA H200", "fp32", 66.9),
        ("NVIDIA A100-SXM4-80GB", "bf16", 312.0), ("NVIDIA A10", "bf16", 125.0), ("NVIDIA L40S", "bf16", 362.0),
        ("NVIDIA L4", "fp32", 30.3), ("Tesla T4", "fp32", 8.1), ("Tesla T4", "bf16", None), ("Tesla V100-SXM2-16GB", "fp32", 15.7),
        ("NVIDIA A10G", "bf16", None), ("AMD EPYC", "fp32", None), ("", "fp32", None),
    ],
)  # fmt: skip
def test_peaks_by_the_name_of_the_device(device: str, precision: str, tera: float | None) -> None:
    assert peak_of(device, precision) == (None if tera is None else pytest.approx(tera * 1e12))


def test_rows_by_hand() -> None:
    """Prompt of 3; answers (7, 8, 9) and (7, 5): packed, the 7 they share is one place."""
    group = Group("e", 0, [1, 2, 3], [answer(7, 8, 9), answer(7, 5)], [], [], 1.0, 0, 1.0)
    # places: 3 of the prompt, 7, 8; contexts 1 + 2 + 3 + 4 + 5; predicted at the prompt's last, after 7, after 8
    assert rows_work(tree_rows([group], [0], 100)) == Work(5, 15, 3)
    # two rows: (1, 2, 3, 7, 8) and (1, 2, 3, 7)
    assert rows_work(single_rows([group], [0])) == Work(9, 15 + 10, 3 + 2)


def test_generation_counts_what_is_equal_once() -> None:
    key = NoiseKey(0, 0, 1, 0, 0, 0)
    prompts = [Prompt([1, 2, 3], 3, key), Prompt([1, 2, 3], 1, key), Prompt([4], 1, key)]
    answers = [[answer(7, 8, 9), answer(7, 5), answer(7, 8, 9)], [answer(7, 6)], [answer(7)]]
    # the first two prompts are one: 3 places and (7), (7, 8); the third is a place of its own
    assert generation_work(prompts, answers) == Work(5 + 1, 15 + 1, 3 + 1)
    joined = Group("e", 0, [1, 2, 3], [*answers[0], *answers[1]], [], [], 1.0, 0, 1.0)
    alone = Group("e", 0, [4], answers[2], [], [], 1.0, 0, 1.0)
    assert generation_work(prompts, answers) == rows_work(tree_rows([joined, alone], [0, 1], 100))
