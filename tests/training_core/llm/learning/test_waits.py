"""Between the micro-batches of an update nothing waits for a GPU: no number is read, and nothing is copied from ordinary memory."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest
import torch

from tests.training_core.llm.learning.test_learner import groups, learner
from tests.training_core.llm.waits import record_waits
from training_core.algorithms.registry import ALGORITHM_CONFIGS
from training_core.llm.learning import learner as module
from training_core.llm.learning import token_logprobs
from training_core.llm.learning.memory import LOGITS_AT_ONCE


def test_a_wait_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    found, recording = record_waits(monkeypatch)
    numbers = torch.arange(3.0)
    reads: list[Callable[[], Any]] = [
        lambda: numbers.sum().item(), lambda: float(numbers[0]), lambda: bool(numbers[0] > 0), numbers.tolist,
        lambda: numbers[numbers > 1], lambda: torch.tensor([1.0]), numbers.cpu,
    ]  # fmt: skip
    for read in reads:
        before = len(found)
        with recording():
            read()
        assert len(found) > before, read


CASES = {
    "plain": ("at_grpo", {}),
    "truncated": ("at_grpo", {}),
    "entropy, KL, correction": (
        "at_grpo", {"entropy_coefficient": 0.01, "kl_coefficient": 0.1, "correction": "truncate"},
    ),
    "critic": ("ppo", {}),
    "sequences": ("gspo", {}),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_no_micro_batch_of_packed_rows_waits(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Padded rows have a wait in transformers itself, which looks for padding in the mask."""
    found, recording = record_waits(monkeypatch)
    monkeypatch.setitem(LOGITS_AT_ONCE, "cpu", 1)  # a chunk for each place
    kind, settings = CASES[name]
    one = learner(
        ALGORITHM_CONFIGS[kind](**settings), micro_batch_tokens=16, packed_attention="mask", minibatches=2
    )
    data = groups()
    if name == "truncated":
        data = [replace(group, top_k=20, top_p=0.99) for group in data]
    usual, chunks = module.training_passes, []

    @contextmanager
    def passes(model: Any) -> Iterator[None]:
        with usual(model), recording():
            yield

    monkeypatch.setattr(module, "training_passes", passes)
    checkpoint = token_logprobs.checkpoint
    monkeypatch.setattr(
        token_logprobs, "checkpoint", lambda *a, **k: (chunks.append(1), checkpoint(*a, **k))[1]
    )
    result = one.update(data, 1, 0)
    assert result.metrics["tokens"] > 0 and result.annotations
    assert len(chunks) > 4
    assert found == []
