"""Text between sampled tokens: it is seen, and not learnt from."""

from dataclasses import replace
from math import isnan

import pytest
import torch

from tests.training_core.llm.toys import make_group, make_model, naive_logprobs
from training_core.algorithms.config import AtGrpo
from training_core.config.models import Policy
from training_core.errors import StalePolicy
from training_core.llm.learning.learner import Learner
from training_core.llm.learning.learner_config import Learner as LearnerSection
from training_core.llm.learning.packing import single_rows, tree_rows
from training_core.types import NOT_SAMPLED, Group
from training_core.versions import check_ages
from workers.actors.policy_workers import check_versions

PROMPT = [6, 7, 8]
ANSWERS = [[9, 10, 11, 12, 13], [9, 10, 11, 14], [9, 10, 11, 12, 13]]
MASKS = [[True, True, False, False, True], [True, False, True, True], None]
ADVANTAGES = [1.0, -0.5, 0.25]


def masked_group() -> Group:
    """Three answers, the first and the last with the same tokens and different masks."""
    group = make_group(make_model(), PROMPT, ANSWERS, ADVANTAGES)
    answers = []
    for answer, mask in zip(group.answers, MASKS, strict=True):
        if mask is not None:
            versions = [0 if learnt else NOT_SAMPLED for learnt in mask]
            logprobs = [value if learnt else 0.0 for value, learnt in zip(answer.logprobs, mask, strict=True)]
            answer = replace(answer, loss_mask=mask, versions=versions, logprobs=logprobs)
        answers.append(answer)
    return replace(group, answers=answers)


def make_learner(**settings: object) -> Learner:
    section = LearnerSection(schedule="constant", max_grad_norm=0.0, **settings)
    return Learner(Policy(learner=section), AtGrpo(), make_model(), 1)


@pytest.mark.parametrize("packed", [True, False])
def test_rows_predict_what_is_learnt_from_and_nothing_else(packed: bool) -> None:
    group = masked_group()
    rows = tree_rows([group], [0], 100) if packed else single_rows([group], [0])
    predicted: dict[int, list[tuple[int, int]]] = {}
    for row in rows:
        pairs = iter(zip(row.sources, row.targets, strict=True))
        for _, place in row.answers:
            count = group.answers[place].trained_tokens
            predicted[place] = [
                (row.positions[source], token) for source, token in (next(pairs) for _ in range(count))
            ]
    assert predicted == {
        0: [(2, 9), (3, 10), (6, 13)],
        1: [(2, 9), (4, 11), (5, 14)],
        2: [(2, 9), (3, 10), (4, 11), (5, 12), (6, 13)],
    }


@pytest.mark.parametrize("packing", [True, False])
def test_the_gradient_is_that_of_a_naive_loop_over_learnt_tokens(packing: bool) -> None:
    one = make_learner(packing=packing, learning_rate=1e-2)
    naive = make_model()
    total = torch.tensor(0.0)
    count = 0
    for tokens, mask, advantage in zip(ANSWERS, MASKS, ADVANTAGES, strict=True):
        spread = naive(input_ids=torch.tensor([PROMPT + tokens])).logits[0].log_softmax(-1)
        for place, token in enumerate(tokens):
            if mask is None or mask[place]:
                logprob = spread[len(PROMPT) - 1 + place, token]
                total = total - (logprob - logprob.detach()).exp() * advantage
                count += 1
    (total / count).backward()
    one.update([masked_group()], 1, 0)
    for mine, theirs in zip(one.model.parameters(), naive.parameters(), strict=True):
        if theirs.grad is None:
            continue
        moment = one.optimizer.state[mine]["exp_avg"] / (1 - 0.9)
        torch.testing.assert_close(moment, theirs.grad, atol=1e-5, rtol=1e-4)


def test_annotations_are_nan_where_nothing_is_learnt() -> None:
    group = masked_group()
    result = make_learner().update([group], 1, 0)
    found = result.annotations[group.episode, 0]
    assert [[not isnan(value) for value in ratios] for ratios in found.ratios] == [
        mask or [True] * 5 for mask in MASKS
    ]
    assert found.masks == [[int(trained) for trained in mask or [True] * 5] for mask in MASKS]
    expected = naive_logprobs(make_model(), PROMPT, ANSWERS[0])
    assert found.training_logprobs[0][4] == pytest.approx(expected[4], abs=1e-5)
    assert result.metrics["tokens"] == 11


def test_an_answer_of_which_nothing_is_learnt_has_no_row() -> None:
    group = masked_group()
    silent = replace(group.answers[0], loss_mask=[False] * 5)
    assert tree_rows([replace(group, answers=[silent])], [0], 100) == []


def test_versions_count_where_tokens_are_learnt_from() -> None:
    group = masked_group()
    check_ages([group], 0)
    checked = check_versions([group], 0, "one", "error")
    assert (checked.answers, checked.lag, checked.dropped) == (3, 0, 0)
    with pytest.raises(StalePolicy, match="sampled by version 0"):
        check_ages([group], 1)
