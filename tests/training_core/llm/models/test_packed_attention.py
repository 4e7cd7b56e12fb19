"""Attention by blocks gives the outputs and gradients of an explicit mask."""

from typing import Any

import pytest
import torch
from torch.nn.functional import scaled_dot_product_attention
from transformers import FalconConfig, FalconForCausalLM

from tests.training_core.llm.learning.test_packing import nested_ends
from training_core.llm.learning.token_logprobs import ResponseForward
from training_core.llm.models import packed_attention as module
from training_core.llm.models.packed_attention import tree_attention, tree_mask, tree_mask_by_blocks


@pytest.mark.parametrize("width", [1, 5, 33, 64, 100, 300, 640, 2100])
@pytest.mark.parametrize("repeats", [1, 3])
def test_outputs_and_gradients_are_those_of_an_explicit_mask(
    width: int, repeats: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        module, "_AT_ONCE", 2 * repeats * 32 * 100
    )  # one row of queries at a time, and several
    rows = 1 if width > 1000 else 3
    ends = torch.cat([nested_ends(width, seed) for seed in range(rows)])
    ends[0, : width // 2] = width  # a long prompt
    torch.manual_seed(0)
    query = torch.randn(rows, width, 2 * repeats, 8).transpose(1, 2).requires_grad_()
    key, value = (torch.randn(rows, width, 2, 8).transpose(1, 2).requires_grad_() for _ in range(2))
    weights = torch.randn(rows, 2 * repeats, width, 8)
    results = []
    for way in ("explicit", "blocks"):
        if way == "blocks":
            attended = tree_attention(query, key, value, tree_mask_by_blocks(ends), 8**-0.5)
        else:
            mask = tree_mask(ends, torch.float32)
            attended = scaled_dot_product_attention(query, key, value, mask, enable_gqa=True)
        results.append([attended, *torch.autograd.grad((attended * weights).sum(), (query, key, value))])
    for expected, actual in zip(*results, strict=True):
        assert torch.allclose(actual, expected, atol=1e-5, rtol=1e-5)


def test_blocks_that_no_query_sees_are_left_out() -> None:
    ends = torch.full((1, 640), 640)
    ends[0, 64:352] = 352  # two long responses after a prompt of one block
    blocks = tree_mask_by_blocks(ends).blocks
    assert blocks[-1].seen == ((0, 64), (384, 576), (320, 384), (576, 640))
    assert blocks[-1].whole == 64 + 192
    assert blocks[1].seen == ((0, 128),)


def test_masks_of_a_long_row_grow_linearly() -> None:
    sizes = []
    for width in (8192, 16384):
        blocks = tree_mask_by_blocks(torch.full((1, width), width)).blocks
        sizes.append(sum(block.hidden.numel() for block in blocks))
    assert sizes[1] == 2 * sizes[0]


class PassedOn(torch.autograd.Function):
    """Returns its argument detached, as the hooks of DeepSpeed's ZeRO stage 3 do."""

    @staticmethod
    def forward(ctx: Any, tensor: torch.Tensor) -> torch.Tensor:
        return tensor.detach()


def test_copies_of_a_mask_keep_their_blocks_and_others_are_refused() -> None:
    mask = tree_mask_by_blocks(torch.full((1, 8), 8))
    passed: Any = PassedOn.apply(mask)  # type: ignore[no-untyped-call]
    for copy in (mask.detach(), mask.to("cpu"), mask.contiguous(), mask.clone(), passed):
        assert copy.blocks == mask.blocks
    query, key, value = (torch.ones(1, 2, 8, 4) for _ in range(3))
    with pytest.raises(TypeError, match="changes its attention mask"):
        tree_attention(query, key, value, mask + 1.0, 0.5)  # type: ignore[arg-type]


def test_a_model_with_own_attention_is_packed_with_an_explicit_mask() -> None:
    config = FalconConfig(
        vocab_size=40,
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        new_decoder_architecture=True,
        num_kv_heads=2,
        alibi=False,
    )
    torch.manual_seed(0)
    model = FalconForCausalLM(config).eval()
    explicit, automatic = (ResponseForward(model, attention) for attention in ("mask", "auto"))
    assert explicit.packs and automatic.packs
    assert not automatic.on_cpu and not automatic.linear
