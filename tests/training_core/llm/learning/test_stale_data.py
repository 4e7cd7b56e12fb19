"""Learning from older data: within the bound, with ratios against the policy that the update begins with."""

import math
from dataclasses import replace

import pytest

from tests.training_core.llm.toys import make_group, make_model, naive_logprobs
from training_core.algorithms.registry import ALGORITHM_CONFIGS
from training_core.config.models import Policy
from training_core.errors import StalePolicy
from training_core.llm.learning.learner import Learner
from training_core.llm.learning.learner_config import Learner as LearnerSettings
from training_core.types import Group

CAP, LOW, HIGH, RATE = 1.15, 0.2, 0.2, 3e-3
VERSION = 2
ANSWERS = [([6, 7, 8, 9], [[7, 8, 2], [9, 2], [10, 11, 12]]), ([10, 11], [[20, 2], [21, 22, 2]])]
ADVANTAGES = [[1.0, -1.0, 0.5], [0.7, -0.7]]


def stale_groups() -> list[Group]:
    """Answers whose first token is of version 0, the second of version 1, and the rest fresh: three models, one answer."""
    fresh = make_model()
    older = {}
    for version, scale in ((0, 0.8), (1, 1.2)):
        older[version] = make_model()
        for weight in older[version].parameters():
            weight.data.mul_(scale)
    made = []
    for (prompt, answers), advantages in zip(ANSWERS, ADVANTAGES, strict=True):
        group = make_group(fresh, prompt, answers, advantages)
        mixed = []
        for answer in group.answers:
            versions = [min(place, VERSION) for place in range(len(answer.token_ids))]
            by_version = {
                version: naive_logprobs(model, prompt, answer.token_ids) for version, model in older.items()
            } | {VERSION: answer.logprobs}
            logprobs = [by_version[version][place] for place, version in enumerate(versions)]
            mixed.append(replace(answer, logprobs=logprobs, versions=versions))
        made.append(replace(group, answers=mixed))
    return made


def learner(epochs: int, correction: str, staleness: int = 2) -> Learner:
    algorithm = ALGORITHM_CONFIGS["at_grpo"](
        correction=correction, correction_cap=CAP, dual_clip=0.0, clip_low=LOW, clip_high=HIGH
    )
    settings = LearnerSettings(schedule="constant", learning_rate=RATE, epochs=epochs)
    return Learner(Policy(learner=settings), algorithm, make_model(), 10, staleness)  # type: ignore[arg-type]


@pytest.mark.parametrize("correction", ["decoupled", "none"])
def test_the_objective_after_a_step_is_the_one_of_the_paper(correction: str) -> None:
    """Decoupled PPO by loops (arXiv 2505.24298, equation 5), on the second pass over the data.

    w = start / sampler where that is at most the cap, else 0; r = now / start; the loss is the mean of
    w max(-r A, -clip(r) A). Without the correction the ratio is now / sampler.
    """
    groups, start = stale_groups(), make_model()
    once = learner(1, correction)
    first = once.update(groups, 1, VERSION)
    now = once.model
    total, left_out, count = 0.0, 0, 0
    for group in groups:
        for answer, advantage in zip(group.answers, group.advantages, strict=True):
            each = zip(
                naive_logprobs(now, group.prompt_ids, answer.token_ids),
                naive_logprobs(start, group.prompt_ids, answer.token_ids),
                answer.logprobs,
                strict=True,
            )
            for new, proximal, sampled in each:
                decoupled = correction == "decoupled"
                ratio = math.exp(new - (proximal if decoupled else sampled))
                weight = math.exp(proximal - sampled) if decoupled else 1.0
                weight = 0.0 if weight > CAP else weight
                bounded = min(max(ratio, 1 - LOW), 1 + HIGH)
                total += weight * max(-ratio * advantage, -bounded * advantage)
                left_out += weight == 0.0
                count += 1
    twice = learner(2, correction).update(groups, 1, VERSION)
    second = 2 * twice.metrics["loss"] - first.metrics["loss"]
    assert second == pytest.approx(total / count, abs=1e-4)
    assert second != pytest.approx(first.metrics["loss"], abs=1e-3), "the step changed nothing"
    if correction == "decoupled":
        assert 0 < left_out < count
        assert twice.metrics["correction_left_out"] == pytest.approx(left_out / count)


def test_what_is_older_than_the_bound_or_newer_is_refused() -> None:
    groups = stale_groups()
    with pytest.raises(StalePolicy, match="sampled by version 0, but the policy is at version 2"):
        learner(1, "decoupled", staleness=1).update(groups, 1, VERSION)
    with pytest.raises(StalePolicy, match="sampled by version 2, but the policy is at version 1"):
        learner(1, "decoupled").update(groups, 1, VERSION - 1)
