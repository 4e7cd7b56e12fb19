"""Packed rows give the logprobs and gradients of single ones."""

import itertools
import random

import pytest
import torch
from torch._dynamo import config as dynamo
from transformers import (
    CohereConfig,
    CohereForCausalLM,
    Gemma2Config,
    Gemma2ForCausalLM,
    MistralConfig,
    MistralForCausalLM,
    PreTrainedModel,
)

from tests.training_core.llm.toys import SMALL, make_group, make_model, naive_logprobs
from training_core.algorithms.config import AtGrpo
from training_core.errors import LearnerFailure
from training_core.llm.generation.prefix_cache import SHORTEST
from training_core.llm.learning.learner_config import Learner as LearnerSettings
from training_core.llm.learning.packing import (
    MicroBatchOptions,
    Row,
    collate,
    make_micro_batches,
    micro_batches,
    single_rows,
    tree_rows,
)
from training_core.llm.learning.token_logprobs import ResponseForward
from training_core.llm.models import packed_attention
from training_core.llm.models.packed_attention import (
    BLOCK,
    compilations,
    compiled_kernel,
    row_width,
    tree_block_mask,
    tree_mask,
)
from training_core.types import Answer, Group

UNFUSED = pytest.mark.filterwarnings("ignore:flex_attention called without")
"""On the CPU, FlexAttention warns that it computes all scores."""
BEGINNING = [6 + (5 * place) % 23 for place in range(SHORTEST)]
"""Long enough for different prompts to share it."""
KINDS = ("llama", "qwen2", "gpt_neox")


def toy_groups(model: PreTrainedModel, seed: int = 0) -> list[Group]:
    """Groups of several lengths; some share a prompt or its beginning, many responses begin alike or are equal."""
    dice = random.Random(seed)
    prompts = [[6, 7, 8, 9], [10, 11], [12, 13, 14, 15, 16, 17, 18], [10, 11]]
    prompts += [[*BEGINNING, 7, 6], [*BEGINNING, 9], [*BEGINNING, 9, 8, 6]]
    return [
        make_group(
            model,
            prompt,
            [[dice.randint(6, 8) for _ in range(dice.randint(1, 6))] for _ in range(dice.randint(2, 6))],
            [0.0] * 6,
        )
        for prompt in prompts
    ]


def rows_of(groups: list[Group], *, packed: bool, longest: int = 1000) -> list[Row]:
    everything = range(len(groups))
    return tree_rows(groups, everything, longest) if packed else single_rows(groups, everything)


def logprobs_of(model: PreTrainedModel, rows: list[Row], *, packed: bool) -> torch.Tensor:
    """(T,) in the order of the rows' answers."""
    batch = collate(rows, 0, packed=packed, device=model.device)
    spread = ResponseForward(model).logits(model, batch).log_softmax(-1)
    return spread[batch.node_indices, batch.targets]


def answer_of(groups: list[Group], place: tuple[int, int]) -> Answer:
    return groups[place[0]].answers[place[1]]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("packed", [True, False])
@pytest.mark.parametrize("longest", [1000, 12])
def test_logprobs_equal_those_of_a_naive_loop(kind: str, packed: bool, longest: int) -> None:
    model = make_model(kind)
    groups = toy_groups(model)
    rows = rows_of(groups, packed=packed, longest=longest)
    with torch.no_grad():
        logprobs = logprobs_of(model, rows, packed=packed)
    places = [place for row in rows for place in row.answers]
    assert sorted(places) == [(g, a) for g, group in enumerate(groups) for a in range(len(group.answers))]
    expected = [
        value
        for place in places
        for value in naive_logprobs(model, groups[place[0]].prompt_ids, answer_of(groups, place).token_ids)
    ]
    assert logprobs.tolist() == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_gradients_are_those_of_a_naive_loop(kind: str) -> None:
    gradients = []
    for way in ("packed", "single", "naive"):
        model = make_model(kind)
        groups = toy_groups(model)
        if way == "naive":
            parts = []
            for group in groups:
                for answer in group.answers:
                    ids = group.prompt_ids + answer.token_ids
                    spread = model(input_ids=torch.tensor([ids])).logits[0].log_softmax(-1)
                    first = len(group.prompt_ids) - 1
                    parts += [spread[first + n, token] for n, token in enumerate(answer.token_ids)]
            torch.stack(parts).sum().backward()
        else:
            rows = rows_of(groups, packed=way == "packed")
            logprobs_of(model, rows, packed=way == "packed").sum().backward()
        gradients.append(torch.cat([weight.grad.flatten() for weight in model.parameters()]))
    scale = gradients[2].abs().max()
    assert (gradients[0] - gradients[2]).abs().max() / scale < 1e-5
    assert (gradients[1] - gradients[2]).abs().max() / scale < 1e-5


def test_the_mask_by_hand() -> None:
    # prompt of two; a, then b and c after a; d by itself; one place of padding
    ends = torch.tensor([[6, 6, 5, 4, 5, 6, 7]])
    seen = tree_mask(ends, torch.float32)[0, 0] == 0
    assert seen.int().tolist() == [
        [1, 0, 0, 0, 0, 0, 0],
        [1, 1, 0, 0, 0, 0, 0],
        [1, 1, 1, 0, 0, 0, 0],
        [1, 1, 1, 1, 0, 0, 0],
        [1, 1, 1, 0, 1, 0, 0],
        [1, 1, 0, 0, 0, 1, 0],
        [0, 0, 0, 0, 0, 0, 1],
    ]


def bare_group(prompt: list[int], answers: list[list[int]]) -> Group:
    said = [Answer(tokens, [0.0] * len(tokens), [0] * len(tokens), "stop", "") for tokens in answers]
    return Group("e", 0, prompt, said, [0.0] * len(said), [0.0] * len(said), 1.0, 0, 1.0)


def test_a_packed_row_by_hand() -> None:
    rows = tree_rows([bare_group([6, 7], [[3, 5, 1], [4], [3, 4, 1], [3, 5, 1]])], [0], 100)
    assert len(rows) == 1
    # the last token of a response has no place: [prompt, 3, then 4 or 5 after it]
    assert rows[0].tokens == [6, 7, 3, 4, 5]
    assert rows[0].positions == [0, 1, 2, 3, 3]
    assert rows[0].ends == [5, 5, 5, 4, 5]
    assert rows[0].answers == [(0, 2), (0, 0), (0, 3), (0, 1)]
    assert rows[0].sources == [1, 2, 3, 1, 2, 4, 1, 2, 4, 1]
    assert rows[0].targets == [3, 4, 1, 3, 5, 1, 3, 5, 1, 4]


def test_groups_with_one_prompt_share_a_row_and_long_ones_are_split() -> None:
    groups = [bare_group([6, 7], [[3, 4, 5], [8, 9, 9]]), bare_group([6, 7], [[3, 4, 5]])]
    assert [len(row.tokens) for row in tree_rows(groups, [0, 1], 100)] == [6]
    split = tree_rows(groups, [0, 1], 5)
    assert [row.tokens for row in split] == [[6, 7, 3, 4], [6, 7, 8, 9]]
    assert [row.answers for row in split] == [[(0, 0), (1, 0)], [(0, 1)]]
    assert [row.tokens for row in tree_rows(groups, [0], 1)] == [[6, 7, 3, 4], [6, 7, 8, 9]]


def test_places_that_responses_share_count_once_for_the_length_of_a_row() -> None:
    group = [bare_group([6, 7], [[3, 4, 5], [3, 8, 5]])]
    assert [len(row.tokens) for row in tree_rows(group, [0], 5)] == [5]
    assert [len(row.tokens) for row in tree_rows(group, [0], 4)] == [4, 4]
    apart = [bare_group([6, 7], [[3, 4], [8, 9]])]
    assert [len(row.tokens) for row in tree_rows(apart, [0], 4)] == [4]
    assert [len(row.tokens) for row in tree_rows(apart, [0], 3)] == [3, 3]


def test_an_answer_without_tokens_has_no_row() -> None:
    assert tree_rows([bare_group([6, 7], [[], []])], [0], 100) == []


def test_micro_batches_hold_every_row_once_within_the_limit() -> None:
    rows = [Row([0] * length, [], []) for length in (5, 3, 9, 9, 30, 4, 4)]
    batches = micro_batches(rows, 20)
    assert sorted(len(row.tokens) for part in batches for row in part) == [3, 4, 4, 5, 9, 9, 30]
    for part in batches:
        assert len(part) == 1 or len(part) * max(len(row.tokens) for row in part) <= 20


def test_a_micro_batch_is_filled_to_its_limit() -> None:
    rows = [Row([0] * 10, [], []) for _ in range(5)]
    assert [len(part) for part in micro_batches(rows, 20)] == [2, 2, 1]


def test_large_micro_batches_are_not_padded_much() -> None:
    rows = [Row([0] * 20, [], []) for _ in range(100)] + [Row([0] * 40, [], []) for _ in range(100)]
    assert [len(part) for part in micro_batches(rows, 100_000)] == [100, 100]


def test_small_micro_batches_are_padded_less_than_a_pass_costs() -> None:
    rows = [Row([0] * 10, [], []) for _ in range(20)] + [Row([0] * size, [], []) for size in (22, 24)]
    assert [len(part) for part in micro_batches(rows, 100_000)] == [
        21,
        1,
    ]  # 21 x 22 - 222 = 240, 22 x 24 - 246 = 282


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_what_can_be_packed_is_tried(kind: str, dtype: torch.dtype) -> None:
    forward = ResponseForward(make_model(kind).to(dtype))
    assert forward.packs
    assert forward.splits


@torch.no_grad()
def test_in_bf16_packing_costs_no_more_than_bf16_does() -> None:
    exact, rough = make_model(), make_model().to(torch.bfloat16)
    groups = toy_groups(exact)
    packed, single = (rows_of(groups, packed=way) for way in (True, False))
    places = [[place for row in rows for place in row.answers] for rows in (packed, single)]
    expected = {place: torch.tensor(answer_of(groups, place).logprobs) for place in places[0]}

    def error(rows: list[Row], order: list[tuple[int, int]], way: bool) -> torch.Tensor:
        return (logprobs_of(rough, rows, packed=way).float() - torch.cat([expected[p] for p in order])).abs()

    off, usual = error(packed, places[0], True), error(single, places[1], False)
    assert usual.max() > 1e-3, "bf16 rounds"
    assert off.mean() < 1.5 * usual.mean()
    assert off.max() < 2.0 * usual.max()


GROUPED = {**SMALL, "num_key_value_heads": 2, "head_dim": 8}


def test_windows_are_not_packed() -> None:
    assert not ResponseForward(Gemma2ForCausalLM(Gemma2Config(**GROUPED, sliding_window=4)).eval()).packs
    assert not ResponseForward(MistralForCausalLM(MistralConfig(**GROUPED, sliding_window=32)).eval()).packs
    assert ResponseForward(MistralForCausalLM(MistralConfig(**GROUPED, sliding_window=None)).eval()).packs


def test_scaled_logits_come_from_the_whole_model() -> None:
    torch.manual_seed(0)
    model = CohereForCausalLM(CohereConfig(**GROUPED, logit_scale=0.25)).eval()
    assert not ResponseForward(model).splits
    groups = toy_groups(model)
    rows = rows_of(groups, packed=True)
    with torch.no_grad():
        logprobs = logprobs_of(model, rows, packed=True)
    expected = [value for row in rows for place in row.answers for value in answer_of(groups, place).logprobs]
    assert logprobs.tolist() == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_model_that_ignores_the_mask_is_not_packed(
    monkeypatch: pytest.MonkeyPatch, dtype: torch.dtype
) -> None:
    model = make_model().to(dtype)
    forward = model.base_model.forward

    def blind(attention_mask: torch.Tensor, **inputs: object) -> object:
        return forward(attention_mask=attention_mask if attention_mask.dim() == 2 else None, **inputs)

    monkeypatch.setattr(model.base_model, "forward", blind)
    assert not ResponseForward(model).packs


def test_a_model_that_takes_no_such_mask_is_not_packed(monkeypatch: pytest.MonkeyPatch) -> None:
    model = make_model()
    forward = model.base_model.forward

    def strict(attention_mask: torch.Tensor, **inputs: object) -> object:
        if attention_mask.dim() != 2:
            raise ValueError("wrong shape for attention_mask")
        return forward(attention_mask=attention_mask, **inputs)

    monkeypatch.setattr(model.base_model, "forward", strict)
    assert not ResponseForward(model).packs


def test_prompts_that_begin_alike_share_a_row_of_bounded_length() -> None:
    model = make_model()
    prompts = [[*BEGINNING, 6 + number % 20, 6 + number // 20] for number in range(40)]
    groups = [make_group(model, prompt, [[7, 8, 9], [7, 9]], [0.0] * 2) for prompt in prompts]
    rows = tree_rows(groups, range(len(groups)), 4096)
    reported = [2 + 3] * len(
        groups
    )  # the end of the prompt; 7, 8 and 7 again without the last tokens, shared
    assert max(len(row.tokens) for row in rows) <= 8 * SHORTEST
    assert sum(len(row.tokens) for row in rows) < len(rows) * SHORTEST + sum(reported)
    assert sum(len(row.tokens) for row in tree_rows(groups, range(len(groups)), 4096)) < 0.25 * sum(
        len(row.tokens) for index in range(len(groups)) for row in tree_rows(groups, [index], 4096)
    )


@UNFUSED
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("longest", [1000, 30])
def test_a_mask_by_blocks_gives_the_logprobs_of_an_explicit_mask(kind: str, longest: int) -> None:
    model = make_model(kind)
    for seed in range(2):
        rows = rows_of(toy_groups(model, seed), packed=True, longest=longest)
        batch = collate(rows, 0, packed=True, device=model.device, blocks=True)
        assert batch.token_ids.shape == (1, row_width(sum(len(row.tokens) for row in rows)))
        inputs = {"input_ids": batch.token_ids, "position_ids": batch.positions, "use_cache": False}
        with torch.no_grad():
            expected, actual = (
                model(**inputs, attention_mask=mask).logits.flatten(0, 1)[batch.nodes].log_softmax(-1)
                for mask in (tree_mask(batch.ends, torch.float32), tree_block_mask(batch.ends))
            )
        assert torch.allclose(actual, expected, atol=1e-5, rtol=0)


def nested_ends(width: int, seed: int) -> torch.Tensor:
    """Ends (1, S) of a random tree in preorder: within a node, nodes follow each other."""
    dice, ends = random.Random(seed), [0] * width
    open_spans = [(0, width)]
    while open_spans:
        first, last = open_spans.pop()
        while first < last:
            size = dice.choice([1, last - first, dice.randint(1, last - first)])
            ends[first] = first + size
            open_spans.append((first + 1, first + size))
            first += size
    return torch.tensor([ends])


@pytest.mark.parametrize("width", [1, 127, 128, 300, 640])
def test_blocks_leave_out_only_what_is_not_seen(width: int) -> None:
    ends = torch.cat([nested_ends(width, seed) for seed in range(4)])
    ends[0, : width // 2] = width  # a long prompt
    mask = tree_block_mask(ends)
    seen = tree_mask(ends, torch.float32)[:, 0] == 0
    padding = -width % BLOCK
    blocks = (
        torch.nn.functional.pad(seen, (0, padding, 0, padding))
        .unflatten(1, (-1, BLOCK))
        .unflatten(3, (-1, BLOCK))
    )
    whole = torch.zeros(blocks.shape[0], blocks.shape[1], blocks.shape[3], dtype=torch.bool)
    partial = torch.zeros_like(whole)
    assert mask.full_kv_num_blocks is not None and mask.full_kv_indices is not None
    for marked, counts, indices in (
        (whole, mask.full_kv_num_blocks, mask.full_kv_indices),
        (partial, mask.kv_num_blocks, mask.kv_indices),
    ):
        for row, column in itertools.product(range(whole.shape[0]), range(whole.shape[1])):
            marked[row, column, indices[row, 0, column, : int(counts[row, 0, column])].long()] = True
    assert not (whole & partial).any()
    assert not (blocks.any(4).any(2) & ~(whole | partial)).any(), "a block that is seen is left out"
    assert blocks.all(4).all(2)[whole].all(), "a block that is not seen as a whole has a mask"
    if width == 640:
        assert whole.any() and not (whole | partial).tril().all()


@pytest.mark.parametrize("attention", ["auto", "mask"])
def test_packed_rows_use_tree_attention_on_the_cpu(attention: str) -> None:
    forward = ResponseForward(make_model(), attention)
    assert not forward.blocks
    assert forward.on_cpu == forward.linear == (attention == "auto")


@pytest.mark.extended
def test_a_row_above_4096_tokens_has_the_logprobs_of_single_rows() -> None:
    """With gradients; in one row, and with the micro-batches that a learner makes."""
    model = make_model("qwen2")
    dice = random.Random(0)
    prompt, answers = [dice.randint(6, 28) for _ in range(3000)], []
    for _ in range(3):
        answers.append([dice.randint(6, 28) for _ in range(800)])
    group = make_group(model, prompt, answers, [0.0] * 3)
    settings, device = LearnerSettings(micro_batch_tokens=8192), torch.device("cpu")
    results = []
    for packed in (True, False):
        options = MicroBatchOptions(settings, AtGrpo(), packed, 0, device, linear=packed)
        model.zero_grad()
        logprobs = {}
        for piece in make_micro_batches([0], [group], options):
            batch = piece.batch
            spread = ResponseForward(model).logits(model, batch).log_softmax(-1)
            chosen = spread[batch.node_indices, batch.targets]
            chosen.sum().backward()
            numbers = [index for _, index in piece.answers]
            logprobs |= dict(zip(numbers, chosen.detach().split(piece.lengths.tolist()), strict=True))
            assert not packed or batch.token_ids.shape == (1, 3000 + 3 * 799)
        gradients = [weight.grad.flatten() for weight in model.parameters() if weight.grad is not None]
        results.append((torch.cat([logprobs[n] for n in range(3)]), torch.cat(gradients)))
    (packed_logprobs, packed_gradient), (logprobs_alone, gradient) = results
    assert torch.allclose(packed_logprobs, logprobs_alone, atol=1e-5, rtol=0)
    assert (packed_gradient - gradient).abs().max() / gradient.abs().max() < 1e-5


@UNFUSED
def test_packed_rows_have_an_explicit_mask_where_flex_attention_has_no_gradients(
    caplog: pytest.LogCaptureFixture,
) -> None:
    model = make_model()
    forward = ResponseForward(model, "flex")
    assert not forward.blocks and forward.packs
    assert "explicit mask" in caplog.text
    assert all(weight.grad is None for weight in model.parameters())


@UNFUSED
def test_a_learner_with_blocks_has_the_logprobs_of_one_without() -> None:
    model = make_model()
    groups = toy_groups(model)
    rows = rows_of(groups, packed=True)
    forwards = [ResponseForward(model) for _ in range(2)]
    forwards[1].blocks = True
    logits = []
    with torch.no_grad():
        for forward in forwards:
            batch = collate(rows, 0, packed=True, device=model.device, blocks=forward.blocks)
            logits.append(forward.logits(model, batch)[batch.node_indices])
    assert torch.allclose(*logits, atol=1e-5, rtol=0)


@UNFUSED
@pytest.mark.extended
def test_flex_attention_is_compiled_once_for_each_width(monkeypatch: pytest.MonkeyPatch) -> None:
    """200 batches of random rows: as many compilations as widths, and none of them falls back to uncompiled code."""
    kernel, before = compiled_kernel(lambda graph, inputs: graph.forward), compilations()
    monkeypatch.setattr(packed_attention, "_kernel", lambda device: kernel)
    dice, widths = random.Random(0), set()
    states = torch.zeros(1, 2, 4096, 4)
    for _ in range(200):
        rows = [Row([7] * size, list(range(size)), [size] * size, sources=[0], targets=[7])
                for size in (dice.randint(1, 600) for _ in range(dice.randint(1, 6)))]  # fmt: skip
        batch = collate(rows, 0, packed=True, device=torch.device("cpu"), blocks=True)
        width = batch.token_ids.shape[1]
        assert (
            sum(len(row.tokens) for row in rows)
            <= width
            <= max(2 * sum(len(row.tokens) for row in rows), BLOCK)
        )
        widths.add(width)
        some = states[:, :, :width]
        with torch.no_grad():
            packed_attention.attend(None, some, some, some, tree_block_mask(batch.ends), scaling=0.5)
    assert compilations() - before == len(widths) <= 10


def test_another_shape_than_the_kernel_was_made_for_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = compiled_kernel(lambda graph, inputs: graph.forward)
    monkeypatch.setattr(packed_attention, "_kernel", lambda device: kernel)
    limited = dynamo.patch(recompile_limit=1)
    message = r"\(1, 2, \d+, 4\) is one more; set learner.packed_attention"
    with limited, torch.no_grad(), pytest.raises(LearnerFailure, match=message):
        for width in (128, 256, 384):
            some = torch.zeros(1, 2, width, 4)
            mask = tree_block_mask(torch.arange(1, width + 1).unsqueeze(0))
            packed_attention.attend(None, some, some, some, mask, scaling=0.5)


def test_rows_are_longer_where_their_mask_consists_of_blocks() -> None:
    answers = [Answer([7, index] * 300, [0.0] * 600, [], "stop", "") for index in range(6, 14)]
    group = Group("", 0, [6] * 900, answers, [0.0] * 8, [0.0] * 8, 1.0, 0, 1.0)
    counts = []
    for blocks in (False, True):
        settings = LearnerSettings(micro_batch_tokens=8192)
        options = MicroBatchOptions(settings, AtGrpo(), True, 0, torch.device("cpu"), blocks, blocks)
        pieces = list(make_micro_batches([0], [group], options))
        counts.append(sum(len(piece.batch.token_ids) for piece in pieces))
    assert counts == [2, 1]
