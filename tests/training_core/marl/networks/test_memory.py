"""Networks with memory: a sequence with episodes that begin in its midst against single steps, and what a window holds."""

import pytest
import torch
from torch import Tensor

from training_core.marl.networks.agents import make_backbone
from training_core.marl.networks.base import Backbone, Memory, map_memory, reset_memory
from training_core.marl.networks.config import Network
from training_core.marl.networks.registry import NETWORK_CONFIGS
from training_core.marl.networks.transformer import Block, TransformerBackbone

KINDS = ("gru", "lstm", "transformer")
LENGTH, ROWS, INPUTS = 23, 5, 3


def network(kind: str, **fields: object) -> Network:
    window = {"context_length": 6} if kind == "transformer" else {}
    small = {"hidden_dim": 7, "recurrent_hidden_dim": 8}
    return NETWORK_CONFIGS[kind].model_validate(small | window | fields)


def backbone(kind: str, **fields: object) -> Backbone:
    """One in double precision, every parameter random: zeros hide mistakes."""
    torch.manual_seed(3)
    made = make_backbone(network(kind, **fields), INPUTS).double()
    for parameter in made.parameters():
        torch.nn.init.normal_(parameter, std=0.4)
    return made


def episodes() -> tuple[Tensor, Tensor]:
    """Inputs, and begins: one row without any, one that begins at every step, others anywhere."""
    generator = torch.Generator().manual_seed(5)
    x = torch.randn(LENGTH, ROWS, INPUTS, generator=generator, dtype=torch.float64)
    begins = torch.rand(LENGTH, ROWS, generator=generator) < 0.15
    begins[:, 0], begins[:, 1] = False, True
    return x, begins


def stepped(made: Backbone, x: Tensor, memory: Memory, begins: Tensor) -> tuple[Tensor, Memory]:
    """The same, row by row and step by step; a row that begins gets a new memory."""
    rows = []
    lasts = []
    for row in range(x.shape[1]):
        own = map_memory(lambda part, row=row: part[row : row + 1], memory)
        features = []
        for t in range(len(x)):
            own = made.start(1) if begins[t, row] else own
            out, own = made.step(x[t, row : row + 1], own)
            features.append(out[0])
        rows.append(torch.stack(features))
        lasts.append(own)
    return torch.stack(rows, 1), tuple(torch.cat(parts) for parts in zip(*lasts, strict=True))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("layers", [1, 3])
@pytest.mark.parametrize("before", [0, 2])
def test_a_sequence_equals_single_steps(kind: str, layers: int, before: int) -> None:
    made = backbone(kind, recurrent_layers=layers, hidden_layers=before)
    x, begins = episodes()
    earlier = torch.randn(9, ROWS, INPUTS, dtype=torch.float64)
    _, memory = stepped(made, earlier, made.start(ROWS), torch.zeros(9, ROWS, dtype=torch.bool))
    expected, _ = stepped(made, x, memory, begins)
    assert expected.shape == (LENGTH, ROWS, made.features)
    torch.testing.assert_close(made.sequence(x, memory, begins), expected, rtol=0, atol=1e-9)


@pytest.mark.parametrize("kind", KINDS)
def test_in_single_precision_they_agree_but_for_rounding(kind: str) -> None:
    torch.manual_seed(0)
    made = make_backbone(network(kind, recurrent_layers=2), INPUTS)
    x, begins = episodes()
    expected, _ = stepped(made, x.float(), made.start(ROWS), begins)
    found = made.sequence(x.float(), made.start(ROWS), begins)
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_a_rollout_in_chunks_with_kept_memory_equals_the_whole(kind: str) -> None:
    made = backbone(kind, recurrent_layers=2)
    x, begins = episodes()
    whole = made.sequence(x, made.start(ROWS), begins)
    memory, parts = made.start(ROWS), []
    for first in range(0, LENGTH, 5):
        chunk = slice(first, first + 5)
        parts.append(made.sequence(x[chunk], memory, begins[chunk]))
        _, memory = stepped(made, x[chunk], memory, begins[chunk])
    torch.testing.assert_close(torch.cat(parts), whole, rtol=0, atol=1e-9)


@pytest.mark.parametrize("kind", ["gru", "lstm"])
def test_gradients_of_a_sequence_equal_those_of_the_loop(kind: str) -> None:
    made = backbone(kind, recurrent_layers=2)
    x, begins = episodes()
    assert_equal_gradients(
        made, made.sequence(x, made.start(ROWS), begins), stepped(made, x, made.start(ROWS), begins)[0]
    )


def test_the_transformer_equals_one_written_out() -> None:
    """Features and gradients against attention by loops over rows, episodes, steps and heads."""
    made = backbone("transformer", context_length=4, recurrent_layers=2)
    x, begins = episodes()
    begins[0] = True
    naive = torch.stack([naive_row(made, x[:, row], begins[:, row]) for row in range(ROWS)], 1)
    assert_equal_gradients(made, made.sequence(x, made.start(ROWS), begins), naive)


def naive_row(made: Backbone, x: Tensor, begins: Tensor) -> Tensor:
    """One row (L, D) -> (L, H)."""
    firsts = [*begins.nonzero().flatten().tolist(), len(x)]
    return torch.cat([naive_episode(made, x[a:b]) for a, b in zip(firsts, firsts[1:], strict=False)])


def naive_episode(made: Backbone, x: Tensor) -> Tensor:
    assert isinstance(made, TransformerBackbone)
    x = made.before(x)
    for block in made.blocks:
        assert isinstance(block, Block)
        normed = block.attention_norm(x)
        query, (key, value) = block.query(normed), block.key_value(normed).chunk(2, -1)
        size = made.features // block.heads
        rows = []
        for t in range(len(x)):
            window = range(max(0, t - made.remembered), t + 1)
            heads = []
            for head in range(block.heads):
                own = slice(head * size, (head + 1) * size)
                scores = [
                    query[t, own] @ key[s, own] / size**0.5 + block.by_distance[head, t - s] for s in window
                ]
                shares = torch.stack(scores).softmax(0)
                heads.append(sum(share * value[s, own] for share, s in zip(shares, window, strict=True)))
            rows.append(torch.cat(heads))
        x = x + block.out(torch.stack(rows))
        x = x + block.feed_forward(block.forward_norm(x))
    features: Tensor = made.norm(x)
    return features


def assert_equal_gradients(made: Backbone, found: Tensor, expected: Tensor) -> None:
    """Both the features and what every parameter would learn from them."""
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-9)
    weights = torch.randn_like(found)
    of = list(made.parameters())
    for one, other in zip(
        torch.autograd.grad((found * weights).sum(), of),
        torch.autograd.grad((expected * weights).sum(), of),
        strict=True,
    ):
        torch.testing.assert_close(one, other)


@pytest.mark.parametrize("kind", KINDS)
def test_what_lies_ahead_or_in_another_episode_changes_nothing(kind: str) -> None:
    made = backbone(kind, recurrent_layers=2)
    x, begins = episodes()
    begins[10] = True
    before = made.sequence(x, made.start(ROWS), begins)
    later, earlier = x.clone(), x.clone()
    later[15:] += 1.0
    earlier[:10] += 1.0
    torch.testing.assert_close(made.sequence(later, made.start(ROWS), begins)[:15], before[:15])
    torch.testing.assert_close(made.sequence(earlier, made.start(ROWS), begins)[10:], before[10:])
    begins[10] = False
    assert not torch.allclose(made.sequence(earlier, made.start(ROWS), begins)[10, 0], before[10, 0])


def test_the_transformer_sees_context_length_steps_and_no_more() -> None:
    made = backbone("transformer", context_length=4, recurrent_layers=1)
    x, _ = episodes()
    never = torch.zeros(LENGTH, ROWS, dtype=torch.bool)
    before = made.sequence(x, made.start(ROWS), never)
    changed = x.clone()
    changed[5] += 1.0
    after = made.sequence(changed, made.start(ROWS), never)
    touched = [t for t in range(LENGTH) if not torch.allclose(before[t], after[t])]
    assert touched == [5, 6, 7, 8]


def test_the_transformer_tells_the_same_inputs_apart_by_their_distance_alone() -> None:
    """The same window anywhere in an episode gives the same features, in another order other ones."""
    made = backbone("transformer", context_length=3, recurrent_layers=1)
    a, b, c = torch.randn(3, 1, 1, INPUTS, dtype=torch.float64)
    x = torch.cat([a, b, c, a, b, c, b, a, c])
    features = made.sequence(x, made.start(1), torch.zeros(9, 1, dtype=torch.bool))
    torch.testing.assert_close(features[2], features[5])
    assert not torch.allclose(features[5], features[8])


def test_a_context_of_one_step_is_no_memory() -> None:
    made = backbone("transformer", context_length=1)
    x, begins = episodes()
    torch.testing.assert_close(
        made.sequence(x, made.start(ROWS), begins), made.sequence(x, made.start(ROWS), ~begins)
    )


@pytest.mark.parametrize("kind", KINDS)
def test_a_reset_memory_is_a_new_one(kind: str) -> None:
    made = backbone(kind, recurrent_layers=2)
    _, memory = made.step(torch.randn(ROWS, INPUTS, dtype=torch.float64), made.start(ROWS))
    emptied = reset_memory(memory, made.start(ROWS), torch.tensor([True, False, False, True, False]))
    for part, old, new in zip(emptied, memory, made.start(ROWS), strict=True):
        torch.testing.assert_close(part[[0, 3]], new[[0, 3]])
        torch.testing.assert_close(part[[1, 2, 4]], old[[1, 2, 4]])


def test_how_remembered_steps_are_looked_at_is_learnt() -> None:
    """A chunk of one step still has a gradient in the attention to what came before it."""
    made = backbone("transformer")
    _, memory = made.step(torch.randn(1, INPUTS, dtype=torch.float64), made.start(1))
    x = torch.randn(1, 1, INPUTS, dtype=torch.float64)
    made.sequence(x, memory, torch.zeros(1, 1, dtype=torch.bool)).square().sum().backward()
    by_distance = made.get_parameter("blocks.0.by_distance").grad
    assert by_distance is not None and bool(by_distance[:, 1].abs().sum() > 0)
