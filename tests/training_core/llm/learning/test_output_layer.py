"""The output layer in chunks gives the numbers and gradients of one tensor of all logits, and never has one."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from training_core.llm.learning import memory
from training_core.llm.learning.packing import GrammarMask
from training_core.llm.learning.token_logprobs import TokenScores, score_tokens

PLACES, TOKENS, HIDDEN, WORDS = 23, 61, 8, 50


def piece(temperature: float, top_k: int, top_p: float, *, constrained: bool = False) -> Any:
    """A micro-batch of tokens in no order, several at the same place; if `constrained`, every third was sampled under a grammar."""
    nodes = np.random.default_rng(0).integers(0, PLACES, TOKENS)
    targets = torch.from_numpy(np.random.default_rng(1).integers(0, WORDS, TOKENS))
    batch = SimpleNamespace(node_indices=torch.from_numpy(nodes), node_numbers=nodes, targets=targets)
    truncated = top_k > 0 or top_p < 1.0
    rows = torch.where(torch.arange(TOKENS) % 3 == 0, torch.arange(TOKENS) // 3, -1)
    allowed = torch.from_numpy(np.random.default_rng(2).random((TOKENS // 3 + 1, WORDS)) < 0.5)
    allowed[rows[rows >= 0], targets[rows >= 0]] = True
    grammar = GrammarMask(rows, allowed) if constrained else None
    return SimpleNamespace(
        batch=batch, temperature=temperature, top_k=top_k, top_p=top_p, truncated=truncated, grammar=grammar
    )


class LargestTensor(TorchDispatchMode):
    """Number of elements of the largest tensor that an operation returns."""

    elements = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        for tensor in result if isinstance(result, tuple | list) else [result]:
            if isinstance(tensor, Tensor):
                self.elements = max(self.elements, tensor.numel())
        return result


def losses(scores: TokenScores) -> Tensor:
    weights = torch.linspace(-1.0, 1.0, TOKENS)
    return (weights * (scores.logprobs + 0.3 * scores.untruncated.tanh()) - 0.1 * scores.entropies).sum()


def trained(head: nn.Linear, states: Tensor, some: Any) -> tuple[TokenScores, Tensor, Tensor, int]:
    """Scores, gradients of states and weights, and the largest tensor."""
    states = states.clone().requires_grad_()
    head.zero_grad()
    with LargestTensor() as largest:
        scores = score_tokens(head, states, some, WORDS, entropy_gradient=True)
        losses(scores).backward()
    assert states.grad is not None and head.weight.grad is not None
    return scores, states.grad, head.weight.grad.clone(), largest.elements


@pytest.mark.parametrize(
    ("settings", "constrained"),
    [((1.0, 0, 1.0), False), ((0.7, 0, 1.0), False), ((0.7, 5, 0.8), False), ((0.7, 5, 0.8), True)],
    ids=["plain", "tempered", "truncated", "constrained"],
)
def test_chunks_give_the_numbers_of_the_whole(
    settings: tuple[float, int, float], constrained: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch.manual_seed(0)
    head, states = nn.Linear(HIDDEN, WORDS), torch.randn(PLACES, HIDDEN)
    some = piece(*settings, constrained=constrained)
    whole, *gradients, most = trained(head, states, some)
    monkeypatch.setitem(memory.LOGITS_AT_ONCE, "cpu", 4 * WORDS)
    chunked, *in_chunks, least = trained(head, states, some)
    for name in ("logprobs", "untruncated", "entropies"):
        torch.testing.assert_close(getattr(chunked, name), getattr(whole, name), rtol=1e-6, atol=1e-6)
    for one, other in zip(in_chunks, gradients, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-6, atol=1e-6)
    assert most == PLACES * WORDS and least < PLACES * WORDS / 2


def test_entropies_have_no_gradient_unless_it_is_requested() -> None:
    head, states = nn.Linear(HIDDEN, WORDS), torch.randn(PLACES, HIDDEN)
    assert not score_tokens(head, states, piece(1.0, 0, 1.0), WORDS).entropies.requires_grad
