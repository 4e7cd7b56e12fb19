"""Answers from outside get the logprobs of the policy as it is; against one forward pass per sequence."""

from dataclasses import replace

import pytest

from tests.training_core.llm.toys import make_group, make_model, naive_logprobs
from training_core.algorithms.config import AtGrpo
from training_core.config.models import Policy
from training_core.llm.learning.learner import Learner
from training_core.llm.learning.learner_config import Learner as LearnerSection
from training_core.types import NOT_SAMPLED, Answer, Group

PROMPT = [4, 8, 9]
SAID = [[10, 11, 2], [12, 2], [10, 13, 14, 2]]
MASK = [True, False, True, True]


def outside(group: Group) -> Group:
    """As it comes from a rollout buffer: no logprobs, no versions; the last answer has text in between."""
    answers = [
        replace(answer, logprobs=[], versions=[NOT_SAMPLED] * len(answer.token_ids))
        for answer in group.answers
    ]
    return replace(group, answers=[*answers[:2], replace(answers[2], loss_mask=MASK)])


@pytest.mark.parametrize("packing", [True, False])
@pytest.mark.parametrize("temperature", [1.0, 0.7])
def test_they_are_the_models_own_at_its_version_before_the_first_step(
    packing: bool, temperature: float
) -> None:
    model = make_model()
    group = make_group(model, PROMPT, SAID, [1.0, -1.0, 0.5], temperature)
    learner = Learner(Policy(learner=LearnerSection(packing=packing)), AtGrpo(), model, 1)
    (result,) = learner.fill_missing_logprobs([outside(group)], version=3)
    for place, said in enumerate(SAID):
        answer = result.answers[place]
        mask = answer.loss_mask or [True] * len(said)
        expected = naive_logprobs(model, PROMPT, said, temperature)
        assert answer.logprobs == pytest.approx(
            [value if learnt else 0.0 for value, learnt in zip(expected, mask, strict=True)], abs=1e-5
        )
        assert answer.versions == [3 if learnt else NOT_SAMPLED for learnt in mask]


def test_known_logprobs_stay_and_the_update_begins_at_ratio_one() -> None:
    model = make_model()
    complete = make_group(model, [5, 9], [[15, 2], [16, 2]], [1.0, -1.0])
    mixed = outside(make_group(model, PROMPT, SAID, [1.0, -1.0, 0.5]))
    mixed.answers[0] = Answer(SAID[0], [-1.0, -2.0, -3.0], [0, 0, 0], "stop", "")
    learner = Learner(Policy(), AtGrpo(), model, 1)
    result = learner.fill_missing_logprobs([complete, mixed], version=0)
    assert result[0] is complete
    assert result[1].answers[0].logprobs == [-1.0, -2.0, -3.0]
    whole = learner.fill_missing_logprobs(
        [outside(make_group(model, PROMPT, SAID, [1.0, -1.0, 0.5]))], version=0
    )
    metrics = learner.update(whole, 1, 0).metrics
    assert metrics["ratio_mean"] == pytest.approx(1.0, abs=1e-5)
    assert metrics["ratio_max"] == pytest.approx(1.0, abs=1e-4)
    assert metrics["mismatch_max"] == pytest.approx(0.0, abs=1e-5)
