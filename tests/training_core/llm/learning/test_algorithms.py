"""Every algorithm against a loop written from its paper, and on a toy that it must solve."""

import math

import pytest
import torch

from tests.training_core.llm.toys import TOKENIZER, make_group, make_model, naive_logprobs
from training_core.algorithms.at_grpo import normalised_advantages, whitened
from training_core.algorithms.config import PolicyGradient, Rae
from training_core.algorithms.hooks import normalisation
from training_core.algorithms.rae import role_advantages
from training_core.algorithms.registry import ALGORITHM_CONFIGS
from training_core.config.models import Policy
from training_core.llm.generation.base import SamplingSettings
from training_core.llm.generation.torch_engine import TorchEngine
from training_core.llm.learning.learner import Learner
from training_core.llm.learning.learner_config import Learner as LearnerSettings
from training_core.types import Answer, Group, NoiseKey, Prompt

# How the papers' losses differ: (ratio, lower clip, upper clip, dual clip, average).
PAPERS = {
    "at_grpo": ("token", 0.2, 0.2, 3.0, "token"),
    "grpo": ("token", 0.2, 0.2, 0.0, "sequence"),
    "dr_grpo": ("token", 0.2, 0.2, 0.0, "constant"),
    "rloo": ("none", 0.0, 0.0, 0.0, "token"),
    "reinforce_plus_plus": ("token", 0.2, 0.2, 0.0, "token"),
    "reinforce_plus_plus_baseline": ("token", 0.2, 0.2, 0.0, "token"),
    "gspo": ("sequence", 3e-4, 4e-4, 0.0, "sequence"),
    "cispo": ("weight", 1.0, 4.0, 0.0, "token"),
    "dapo": ("token", 0.2, 0.28, 0.0, "token"),
    "ppo": ("token", 0.2, 0.2, 0.0, "token"),
    "rae": ("token", 0.2, 0.2, 0.0, "constant"),
    "custom": ("token", 0.2, 0.2, 3.0, "token"),
}
REQUIRED: dict[str, dict[str, str]] = {"custom": {"path": "training_core.algorithms.hooks:AlgorithmHooks"}}
"""Fields without a default."""
BARE = {"ppo": {"gae_lambda": 1.0, "value_coefficient": 0.0, "whiten_advantages": False}}
"""What leaves the first update of an algorithm with the advantages that it is given; its critic: test_critic.py."""
ANSWERS = [([6, 7, 8, 9], [[7, 8, 2], [9, 2], [10, 11, 12]]), ([10, 11], [[20, 2], [21, 22, 2]])]
ADVANTAGES = [[1.0, -1.0, 0.5], [0.7, -0.7]]
OFF = [-1.7, -0.3, -0.1, 0.0, 0.15, 0.4]
"""What is added to sampled logprobs, in turn, so that ratios depart from 1."""
LIMIT = 5


def off_policy_groups() -> list[Group]:
    """Groups whose stored logprobs are those of another policy."""
    model, made, place = make_model(), [], 0
    for (prompt, answers), advantages in zip(ANSWERS, ADVANTAGES, strict=True):
        group = make_group(model, prompt, answers, advantages)
        moved = []
        for answer in group.answers:
            logprobs = [value + OFF[(place + step) % 6] for step, value in enumerate(answer.logprobs)]
            place += len(logprobs)
            moved.append(Answer(answer.token_ids, logprobs, answer.versions, "stop", ""))
        made.append(
            Group(group.episode, 0, prompt, moved, group.rewards, group.advantages, 1.0, 0, 1.0, LIMIT)
        )
    return made


def naive_loss(kind: str, groups: list[Group]) -> float:
    """The loss by loops over responses and tokens; no penalty, no correction."""
    ratio_of, low, high, dual, average = PAPERS[kind]
    model, total = make_model(), 0.0
    answers = [(group, place) for group in groups for place in range(len(group.answers))]
    tokens = sum(len(group.answers[place].token_ids) for group, place in answers)
    for group, place in answers:
        answer, advantage = group.answers[place], group.advantages[place]
        now = naive_logprobs(model, group.prompt_ids, answer.token_ids)
        ratios = [math.exp(new - old) for new, old in zip(now, answer.logprobs, strict=True)]
        if ratio_of == "sequence":
            ratios = [math.prod(ratios) ** (1 / len(ratios))] * len(ratios)
        losses = []
        for ratio, logprob in zip(ratios, now, strict=True):
            bounded = min(max(ratio, 1 - low), 1 + high)
            if ratio_of == "none":
                loss = -advantage * logprob
            elif ratio_of == "weight":
                loss = -bounded * advantage * logprob
            else:
                loss = max(-ratio * advantage, -bounded * advantage)
            if dual and advantage < 0:
                loss = min(loss, -dual * advantage)
            losses.append(loss)
        parts = {
            "token": sum(losses) / tokens,
            "sequence": sum(losses) / len(losses) / len(answers),
            "constant": sum(losses) / LIMIT / len(answers),
        }
        total += parts[average]
    return total


def learner(algorithm: PolicyGradient, **settings: object) -> Learner:
    policy = Policy(learner=LearnerSettings(**{"schedule": "constant", **settings}))
    return Learner(policy, algorithm, make_model(), 40)  # type: ignore[arg-type]


@pytest.mark.parametrize("packing", [True, False])
@pytest.mark.parametrize("kind", sorted(PAPERS))
def test_the_loss_is_that_of_a_naive_loop(kind: str, packing: bool) -> None:
    assert set(PAPERS) == set(ALGORITHM_CONFIGS)
    algorithm = ALGORITHM_CONFIGS[kind](kl_coefficient=0.0, **BARE.get(kind, {}), **REQUIRED.get(kind, {}))
    groups = off_policy_groups()
    for limit in (10_000, 8):
        result = learner(algorithm, packing=packing, micro_batch_tokens=limit).update(groups, 1, 0)
        assert result.metrics["loss"] == pytest.approx(naive_loss(kind, groups), abs=2e-5)


@pytest.mark.parametrize("kind", sorted(PAPERS))
def test_a_toy_is_solved_by_every_algorithm(kind: str) -> None:
    """One prompt, a reward for one word: advantages as the config says, until nearly all answers are that word."""
    algorithm = ALGORITHM_CONFIGS[kind](**REQUIRED.get(kind, {}))
    one = learner(algorithm, learning_rate=4e-3)
    engine = TorchEngine(one.model, TOKENIZER)
    good = TOKENIZER.convert_tokens_to_ids("w3")
    how = normalisation(algorithm)
    shares, baselines = [], dict[str, float]()
    for iteration in range(1, 41):
        prompt = Prompt([6, 7], 32, NoiseKey(0, 0, iteration, 0, 0, 0))
        answers = engine.generate([prompt], SamplingSettings(max_tokens=1))[0]
        rewards = torch.tensor([float(answer.token_ids[0] == good) for answer in answers]).double().numpy()
        shares.append(rewards.mean())
        found = normalised_advantages(rewards, 0 * rewards.astype("int64"), how)
        if isinstance(algorithm, Rae):
            found, baselines = role_advantages(
                found, ["planner"] * len(found), baselines, algorithm.baseline_decay
            )
        advantages = (whitened(found, found != 0) if algorithm.batch_whitening else found).tolist()
        one.update(
            [Group("e", 0, prompt.token_ids, answers, rewards.tolist(), advantages, 1.0, 0, 1.0)],
            iteration,
            engine.version,
        )
        engine.version += 1
    assert sum(shares[:3]) / 3 < 0.3
    assert sum(shares[-5:]) / 5 > 0.9


@pytest.mark.parametrize("kind", ["truncate", "mask", "decoupled"])
def test_corrections_weigh_tokens_by_the_trainer_over_the_sampler(kind: str) -> None:
    """On the first step the ratio is 1 against the policy itself, so the loss is -weight x advantage, averaged."""
    algorithm = ALGORITHM_CONFIGS["at_grpo"](correction=kind, correction_cap=1.2, correction_floor=0.8)
    groups = off_policy_groups()
    result = learner(algorithm).update(groups, 1, 0)
    model, total, left_out, count = make_model(), 0.0, 0, 0
    for group in groups:
        for answer, advantage in zip(group.answers, group.advantages, strict=True):
            for new, old in zip(
                naive_logprobs(model, group.prompt_ids, answer.token_ids), answer.logprobs, strict=True
            ):
                weight = math.exp(new - old)
                if kind == "truncate":
                    weight = min(weight, 1.2)
                elif weight > 1.2 or (kind == "mask" and weight < 0.8):
                    weight = 0.0
                total -= weight * advantage
                left_out += weight == 0.0
                count += 1
    assert result.metrics["loss"] == pytest.approx(total / count, abs=1e-5)
    assert result.metrics["correction_left_out"] == pytest.approx(left_out / count)
    assert result.metrics["ratio_max"] == pytest.approx(1.0, abs=1e-5)
