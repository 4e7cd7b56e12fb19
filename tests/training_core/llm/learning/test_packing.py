"""Packed rows give the logprobs and gradients of single ones."""

import pytest
import torch
from transformers import Gemma2Config, Gemma2ForCausalLM

from tests.training_core.llm.toys import SMALL, make_group, make_model, naive_logprobs
from training_core.llm.learning.packing import collate, group_rows, micro_batches, tree_mask
from training_core.llm.learning.token_logprobs import can_pack, response_logits

PROMPTS = [[6, 7, 8, 9], [10, 11], [12, 13, 14, 15, 16, 17, 18]]
ANSWERS = [[[7, 8, 2], [9], [10, 11, 12, 13]], [[20, 2], [21, 22]], [[6, 6, 6, 2], [9, 2]]]


@pytest.mark.parametrize("kind", ["llama", "qwen2", "gpt_neox"])
@pytest.mark.parametrize("packed", [True, False])
def test_logprobs_equal_those_of_a_naive_loop(kind: str, packed: bool) -> None:
    model = make_model(kind)
    groups = [make_group(model, p, a, [0.0] * len(a)) for p, a in zip(PROMPTS, ANSWERS, strict=True)]
    rows = [row for index, group in enumerate(groups) for row in group_rows(index, group, packed=packed)]
    batch = collate(rows, 0, packed=packed, device=model.device, dtype=model.dtype)
    with torch.no_grad():
        logprobs = (
            response_logits(model, batch).log_softmax(-1).gather(-1, batch.targets.unsqueeze(-1)).squeeze(-1)
        )
    wanted = [
        value
        for row in rows
        for answer in row.answers
        for value in naive_logprobs(
            model, groups[row.group].prompt_ids, groups[row.group].answers[answer].token_ids
        )
    ]
    assert logprobs.tolist() == pytest.approx(wanted, abs=1e-5)


def test_gradients_are_the_same() -> None:
    gradients = []
    for packed in (True, False):
        model = make_model()
        group = make_group(model, PROMPTS[0], ANSWERS[0], [0.0] * 3)
        batch = collate(
            group_rows(0, group, packed=packed), 0, packed=packed, device=model.device, dtype=model.dtype
        )
        response_logits(model, batch).log_softmax(-1).gather(-1, batch.targets.unsqueeze(-1)).sum().backward()
        gradients.append(torch.cat([weight.grad.flatten() for weight in model.parameters()]))
    scale = gradients[1].abs().max()
    assert (gradients[0] - gradients[1]).abs().max() / scale < 1e-5


def test_the_mask_by_hand() -> None:
    # prompt of two, answers of two and one, one place of padding
    seen = tree_mask(torch.tensor([[0, 0, 1, 1, 2, -1]]), torch.float32)[0, 0] == 0
    assert seen.int().tolist() == [
        [1, 0, 0, 0, 0, 0],
        [1, 1, 0, 0, 0, 0],
        [1, 1, 1, 0, 0, 0],
        [1, 1, 1, 1, 0, 0],
        [1, 1, 0, 0, 1, 0],
        [0, 0, 0, 0, 0, 1],
    ]


def test_a_packed_row_by_hand() -> None:
    model = make_model()
    row = group_rows(4, make_group(model, [6, 7], [[8, 9], [10]], [0.0, 0.0]), packed=True)[0]
    assert row.tokens == [6, 7, 8, 9, 10]
    assert row.positions == [0, 1, 2, 3, 2]
    assert row.sources == [1, 2, 1]
    assert row.targets == [8, 9, 10]


def test_micro_batches_hold_every_row_once_within_the_limit() -> None:
    model = make_model()
    rows = [
        row
        for index, (p, a) in enumerate(zip(PROMPTS, ANSWERS, strict=True))
        for row in group_rows(index, make_group(model, p, a, [0.0] * len(a)), packed=False)
    ]
    batches = micro_batches(rows, 20)
    assert sorted((row.group, row.answers) for part in batches for row in part) == sorted(
        (row.group, row.answers) for row in rows
    )
    for part in batches:
        assert len(part) == 1 or len(part) * max(len(row.tokens) for row in part) <= 20


def test_what_can_be_packed_is_tried() -> None:
    assert all(can_pack(make_model(kind)) for kind in ("llama", "qwen2", "gpt_neox"))
    sliding = {**SMALL, "num_key_value_heads": 2, "head_dim": 8, "sliding_window": 4}
    assert not can_pack(Gemma2ForCausalLM(Gemma2Config(**sliding)).eval())


def test_a_model_that_ignores_the_mask_is_not_packed(monkeypatch: pytest.MonkeyPatch) -> None:
    model = make_model()
    forward = model.base_model.forward

    def blind(attention_mask: torch.Tensor, **inputs: object) -> object:
        return forward(attention_mask=attention_mask if attention_mask.dim() == 2 else None, **inputs)

    monkeypatch.setattr(model.base_model, "forward", blind)
    assert not can_pack(model)
