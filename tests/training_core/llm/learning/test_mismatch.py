"""Train-inference mismatch: by hand, against a naive loop, and apart from what the update itself moves."""

import math

import pytest
import torch

from tests.training_core.llm.learning.test_learner import ANSWERS, groups, learner
from tests.training_core.llm.toys import make_model, naive_logprobs
from training_core.llm.learning.update_metrics import UpdateSums

TOKENS = sum(len(answer) for answers in ANSWERS for answer in answers)


def test_by_hand() -> None:
    seen = UpdateSums()
    seen.compare(torch.tensor([-1.0, -2.0]), torch.tensor([-1.5, -2.0]))
    seen.compare(torch.tensor([-3.0]), torch.tensor([-2.0]))
    gaps = [0.5, 0.0, -1.0]
    assert seen.mismatch() == {
        "mismatch_mean": pytest.approx(1.5 / 3),
        "mismatch_max": pytest.approx(1.0),
        "mismatch_kl": pytest.approx(sum(math.exp(gap) - 1 - gap for gap in gaps) / 3),
    }
    assert seen.mismatch()["mismatch_kl"] == pytest.approx((0.1487212707 + 0.3678794412) / 3)
    assert UpdateSums().mismatch() == {}


def test_the_estimate_is_that_of_the_kl_of_two_distributions() -> None:
    """Of all tokens of a vocabulary, each as often as the engine samples it."""
    torch.manual_seed(0)
    engine, trainer = torch.randn(2, 5).log_softmax(-1)
    counts = (engine.exp() * 200_000).round().long()
    seen = UpdateSums()
    seen.compare(trainer.repeat_interleave(counts), engine.repeat_interleave(counts))
    exact = (engine.exp() * (engine - trainer)).sum()
    assert seen.mismatch()["mismatch_kl"] == pytest.approx(exact.item(), rel=1e-3)


@pytest.mark.parametrize("packing", [True, False])
@pytest.mark.parametrize("minibatches", [1, 3])
def test_one_engine_and_one_learner_agree_whatever_the_update_moves(packing: bool, minibatches: int) -> None:
    one = learner(packing=packing, minibatches=minibatches, epochs=2, learning_rate=0.05)
    result = one.update(groups(0.7), 1, 0)
    assert result.metrics["ratio_max"] > 1.5, "the update moves far"
    assert result.metrics["mismatch_max"] < 1e-4
    for group in groups(0.7):
        stored = [answer.logprobs for answer in group.answers]
        learnt = result.annotations[group.episode, group.turn].training_logprobs
        for mine, theirs in zip(learnt, stored, strict=True):
            assert mine == pytest.approx(theirs, abs=1e-4)


def test_an_engine_that_is_off_on_one_token() -> None:
    data = groups()
    data[1].answers[0].logprobs[0] += 0.3
    metrics = learner().update(data, 1, 0).metrics
    assert metrics["mismatch_mean"] == pytest.approx(0.3 / TOKENS, abs=1e-5)
    assert metrics["mismatch_max"] == pytest.approx(0.3, abs=1e-4)
    assert metrics["mismatch_kl"] == pytest.approx((math.exp(-0.3) - 1 + 0.3) / TOKENS, abs=1e-5)


def test_an_engine_of_other_weights_against_a_loop_over_answers() -> None:
    """The engine samples with weights that the learner does not have."""
    trainer = make_model(seed=1)
    one = learner(minibatches=2)
    one.model.load_state_dict(trainer.state_dict())
    metrics = one.update(groups(0.7), 1, 0).metrics
    gaps = [
        mine - theirs
        for group in groups(0.7)
        for answer in group.answers
        for mine, theirs in zip(
            naive_logprobs(trainer, group.prompt_ids, answer.token_ids, 0.7), answer.logprobs, strict=True
        )
    ]
    assert len(gaps) == TOKENS
    assert metrics["mismatch_mean"] == pytest.approx(sum(map(abs, gaps)) / TOKENS, rel=1e-4)
    assert metrics["mismatch_max"] == pytest.approx(max(map(abs, gaps)), rel=1e-4)
    assert metrics["mismatch_kl"] == pytest.approx(
        sum(math.exp(gap) - 1 - gap for gap in gaps) / TOKENS, rel=1e-4
    )


def test_only_tokens_of_the_learners_own_weights_are_compared() -> None:
    """Tokens of an older version, and those of a version that an update has left, differ by what updates have moved."""
    one, data = learner(), groups()
    one.staleness = 1
    old, new = data[0].answers[:2]
    for answer in (answer for group in data for answer in group.answers):
        answer.versions[:] = [0] * len(answer.versions)
    new.versions[-1] = 1
    old.logprobs[0] += 0.5
    new.logprobs[-1] += 0.3
    metrics = one.update(data, 1, 1).metrics
    assert metrics["mismatch_mean"] == metrics["mismatch_max"] == pytest.approx(0.3, abs=1e-4)
    assert "mismatch_mean" not in one.update(data, 2, 1).metrics


def test_looking_ahead_changes_nothing_and_is_for_those_who_are_read() -> None:
    weights = []
    for annotated in (None, [], ["e10"]):
        one = learner(minibatches=3, learning_rate=0.01)
        notes = one.update(groups(), 1, 0, annotated=annotated).annotations
        weights.append(torch.cat([weight.detach().flatten() for weight in one.model.parameters()]))
        if annotated is not None:
            assert [place for place, _ in notes] == annotated
        assert all(all(answer) for note in notes.values() for answer in note.training_logprobs)
    assert torch.equal(weights[0], weights[1]) and torch.equal(weights[0], weights[2])
