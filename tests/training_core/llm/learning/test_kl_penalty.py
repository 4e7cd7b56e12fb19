"""KL penalties and discounts are taken from rewards before they are normalised: against loops over units and tokens."""

import math
import statistics
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.training_core.llm.learning.test_algorithms import ANSWERS, learner
from tests.training_core.llm.toys import make_group, make_model, naive_logprobs
from training_core.algorithms.registry import ALGORITHM_CONFIGS
from training_core.config.files import load_config
from training_core.errors import ConfigError
from training_core.llm.learning.advantages import needs_initial_pass
from training_core.llm.learning.learner import Learner
from training_core.llm.learning.packing import MicroBatch, make_micro_batches
from training_core.llm.learning.training_groups import make_groups
from training_core.types import Answer, Candidate, Compared, Episode, Group, Turn

REWARDS = [[1.0, 0.0, 0.5], [0.2, 0.9]]
BETA = 0.5


def fresh_groups(model: Any) -> list[Group]:
    """Sampled by this model; groups of 3 and of 2 answers, compared with one another."""
    made = [
        make_group(model, prompt, answers, rewards)
        for (prompt, answers), rewards in zip(ANSWERS, REWARDS, strict=True)
    ]
    return [replace(group, advantages=[99.0] * len(group.answers)) for group in made]


def moved(kind: str, **settings: Any) -> Learner:
    """A learner a step away from its base, so that its KL from it is not 0."""
    one = learner(ALGORITHM_CONFIGS[kind](**{"kl_coefficient": BETA, "kl_in": "reward"} | settings))
    with torch.no_grad():
        for weight in one.model.parameters():
            if weight.dim() > 1:
                weight.mul_(0.9)
    return one


def costs_of(one: Learner, group: Group, answer: Answer) -> list[float]:
    """b * k1 of each token."""
    now = naive_logprobs(one.model, group.prompt_ids, answer.token_ids)
    base = naive_logprobs(make_model(), group.prompt_ids, answer.token_ids)
    return [BETA * (new - old) for new, old in zip(now, base, strict=True)]


def seen(one: Learner, groups: list[Group]) -> dict[tuple[str, int], Tensor]:
    """(episode, number of the answer in it) -> the advantages of its tokens that the first step learns from."""
    found: dict[tuple[str, int], Tensor] = {}
    loss = one._loss

    def watched(piece: MicroBatch, *rest: Any, **more: Any) -> Tensor:
        parts = piece.advantages.split(piece.lengths.tolist())
        for (group, place), values in zip(piece.answers, parts, strict=True):
            found.setdefault((group.episode, group.turn + place), values.clone())
        return loss(piece, *rest, **more)

    one._loss = watched  # type: ignore[method-assign]
    one.update(groups, 1, 0)
    return found


@pytest.mark.parametrize("settings", [{}, {"micro_batch_tokens": 8}, {"packing": False}, {"minibatches": 2}])
@pytest.mark.parametrize(
    ("kind", "extra"),
    [
        ("rloo", {}),
        ("grpo", {"kl_estimator": "k1"}),
        ("grpo", {"kl_estimator": "k1", "unbiased_std": False, "mean_level": "batch", "std_level": "batch"}),
        ("dr_grpo", {"kl_estimator": "k1", "batch_whitening": True}),
    ],
)
def test_a_sequences_kl_is_charged_before_rewards_are_normalised(
    kind: str, extra: dict[str, Any], settings: dict[str, Any]
) -> None:
    one = moved(kind, **extra)
    one.settings = one.settings.model_copy(update=settings)
    one.packed = one.settings.packing and one.forward.packs
    groups = fresh_groups(one.model)
    charged = [
        [
            reward - sum(costs_of(one, group, answer))
            for answer, reward in zip(group.answers, rewards, strict=True)
        ]
        for group, rewards in zip(groups, REWARDS, strict=True)
    ]
    everyone = [reward for group in charged for reward in group]
    found = seen(one, groups)
    expected: list[list[float]] = []
    for group in charged:
        row = []
        for place, reward in enumerate(group):
            if kind == "rloo":
                row.append(reward - statistics.fmean(group[:place] + group[place + 1 :]))
            elif extra.get("mean_level") == "batch":
                row.append((reward - statistics.fmean(everyone)) / (statistics.pstdev(everyone) + 1e-6))
            elif kind == "grpo":
                row.append((reward - statistics.fmean(group)) / (statistics.stdev(group) + 1e-6))
            else:
                row.append(reward - statistics.fmean(group))
        expected.append(row)
    if kind == "dr_grpo":
        flat = [value for row in expected for value in row]
        mean, std = statistics.fmean(flat), statistics.stdev(flat) + 1e-6
        expected = [[(value - mean) / std for value in row] for row in expected]
    for group, row in zip(groups, expected, strict=True):
        for place, value in enumerate(row):
            assert found[group.episode, place].tolist() == pytest.approx(
                [value] * len(group.answers[place].token_ids), abs=2e-4
            )


@pytest.mark.parametrize("limit", [4096, 8])
@pytest.mark.parametrize("discount", [1.0, 0.8])
@pytest.mark.parametrize("kind", ["reinforce_plus_plus", "reinforce_plus_plus_baseline"])
def test_returns_of_tokens_are_normalised_over_the_batchs_tokens(
    kind: str, discount: float, limit: int
) -> None:
    one = moved(kind, discount=discount, kl_estimator="k1")
    one.settings = one.settings.model_copy(update={"micro_batch_tokens": limit})
    groups = fresh_groups(one.model)
    returns: dict[tuple[str, int], list[float]] = {}
    for group, rewards in zip(groups, REWARDS, strict=True):
        base = statistics.fmean(rewards) if kind.endswith("baseline") else 0.0
        for place, answer in enumerate(group.answers):
            costs = costs_of(one, group, answer)
            last = len(costs) - 1
            returns[group.episode, place] = [
                discount ** (last - token) * (rewards[place] - base)
                - sum(discount ** (later - token) * costs[later] for later in range(token, last + 1))
                for token in range(last + 1)
            ]
    flat = [value for row in returns.values() for value in row]
    mean, std = statistics.fmean(flat), statistics.stdev(flat)
    found = seen(one, groups)
    for key, row in returns.items():
        expected = [(value - mean) / (std + 1e-6) for value in row]
        assert found[key].tolist() == pytest.approx(expected, abs=2e-4)


def test_without_kl_or_discount_driver_and_learner_compute_the_same_advantages() -> None:
    """Batch figures over tokens, with a discount so close to 1 that only the learner's path is another."""
    rewards, lengths = [1.0, 0.0, 3.0], [1, 2, 3]
    episodes = []
    for number, (reward, length) in enumerate(zip(rewards, lengths, strict=True)):
        answer = Answer([7] * length, [-1.0] * length, [0] * length, "stop", "")
        turn = Turn(0, "planner", "planner", [], [6], [Candidate(answer, reward=reward)], 0)
        episodes.append(Episode(f"e{number}", 1, "train", f"t{number}", "", [turn]))
    config = load_config(
        "plan_path_duo",
        {"algorithm.type": "reinforce_plus_plus", "rollout.group_size": 1, "algorithm.kl_coefficient": 0.0},
    )
    groups = make_groups(episodes, config).groups["planner"]
    tokens = [1.0, 0.0, 0.0, 3.0, 3.0, 3.0]
    mean, std = statistics.fmean(tokens), statistics.stdev(tokens) + 1e-6
    driver = [group.advantages[0] for group in groups]
    assert driver == pytest.approx([(reward - mean) / std for reward in rewards])
    algorithm = ALGORITHM_CONFIGS["reinforce_plus_plus"](kl_coefficient=0.0, discount=1 - 1e-9)
    found = seen(learner(algorithm), groups)
    assert [found[f"e{number}", 0][0].item() for number in range(3)] == pytest.approx(driver, abs=1e-5)


def test_turns_of_one_episode_are_charged_together() -> None:
    """Whole episodes are the units: a turn's advantage has the KL of all of the role's turns in it."""
    one = moved("rloo")
    flat = [
        replace(group, answers=[group.answers[place]], rewards=[0.0], advantages=[0.0], turn=place)
        for group in fresh_groups(one.model)
        for place in range(2)
    ]
    groups = [
        replace(group, episode=f"s{place // 2}", compared=[Compared(place // 2, 0, float(place // 2))])
        for place, group in enumerate(flat)
    ]
    costs = [sum(costs_of(one, group, group.answers[0])) for group in groups]
    charged = [0.0 - costs[0] - costs[1], 1.0 - costs[2] - costs[3]]
    advantages = {key: values[0].item() for key, values in seen(one, groups).items()}
    gap = charged[0] - charged[1]
    assert advantages == pytest.approx(
        {("s0", 0): gap, ("s0", 1): gap, ("s1", 0): -gap, ("s1", 1): -gap}, abs=2e-4
    )


def test_groups_of_equal_rewards_pay_no_kl() -> None:
    one = moved("rloo", drop_zero_variance=False)
    groups = [replace(group, rewards=[0.5] * len(group.answers)) for group in fresh_groups(one.model)]
    assert all((values == 0.0).all() for values in seen(one, groups).values())


def test_a_role_baseline_s_advantage_is_less_its_kl() -> None:
    one = moved("rae", kl_estimator="k1")
    groups = [replace(group, advantages=group.rewards) for group in fresh_groups(one.model)]
    expected = {
        (group.episode, place): group.rewards[place] - sum(costs_of(one, group, answer))
        for group in groups
        for place, answer in enumerate(group.answers)
    }
    for key, values in seen(one, groups).items():
        assert values[0].item() == pytest.approx(expected[key], abs=2e-4)
    with pytest.raises(ConfigError, match="before the KL is known"):
        load_config(
            "plan_path_duo",
            {
                "algorithm.type": "rae",
                "algorithm.kl_coefficient": 0.1,
                "algorithm.kl_in": "reward",
                "algorithm.batch_whitening": True,
            },
        )


@pytest.mark.parametrize("annotated", [None, {"e6", "e10"}, set[str]()])
def test_a_pass_over_all_data_compares_as_one_over_annotated_data(annotated: set[str] | None) -> None:
    """The correction of fresh data is 1, so it only adds the pass before the first step."""
    once, twice = (
        learner(ALGORITHM_CONFIGS["at_grpo"](correction=correction), minibatches=2, epochs=2)
        for correction in ("truncate", "none")
    )
    first, second = (one.update(fresh_groups(make_model()), 1, 0, annotated) for one in (once, twice))
    assert len(first.annotations) == (0 if annotated == set() else 2)
    for key, found in second.annotations.items():
        assert found.training_logprobs == first.annotations[key].training_logprobs, "bit for bit"
    names = [name for name in second.metrics if name.startswith("mismatch")]
    assert [first.metrics[name] for name in names] == [second.metrics[name] for name in names]


@pytest.mark.parametrize("annotated", [None, {"e6"}, {"e10"}])
@pytest.mark.parametrize("kind", ["rloo", "at_grpo", "ppo"])
def test_data_is_passed_over_once_before_the_first_step(kind: str, annotated: set[str] | None) -> None:
    algorithm = ALGORITHM_CONFIGS[kind](kl_coefficient=0.0, correction="truncate")
    assert needs_initial_pass(algorithm)
    one = learner(algorithm, minibatches=2)
    passes = []
    compute = one.forward._score

    def counted(*arguments: Any, **named: Any) -> Any:
        passes.append(torch.is_grad_enabled())
        return compute(*arguments, **named)

    one.forward._score = counted  # type: ignore[method-assign]
    groups = fresh_groups(make_model())
    result = one.update(groups, 1, 0, annotated)
    pieces = sum(
        len(list(make_micro_batches([index], groups, one._micro_batch_options()))) for index in range(2)
    )
    assert passes.count(False) == pieces, "one micro-batch of each minibatch, once, without gradients"
    assert passes.count(True) == pieces
    assert result.metrics["mismatch_max"] < 1e-4
    for (episode, _), found in result.annotations.items():
        group = next(each for each in groups if each.episode == episode)
        for logprobs, answer in zip(found.training_logprobs, group.answers, strict=True):
            assert logprobs == pytest.approx(answer.logprobs, abs=1e-4)
            assert not any(map(math.isnan, logprobs))
