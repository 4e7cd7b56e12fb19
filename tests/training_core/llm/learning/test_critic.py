"""PPO's critic: an update against loops, what the head learns, and that it goes on bit by bit from a checkpoint."""

import json
import math
from pathlib import Path

import pytest
import torch

from tests.training_core.llm.learning.test_algorithms import off_policy_groups
from tests.training_core.llm.learning.test_learner import flat
from tests.training_core.llm.toys import TOKENIZER, make_group, make_model, naive_logprobs
from training_core.algorithms.config import AtGrpo, Ppo
from training_core.config.files import load_config
from training_core.config.models import Policy
from training_core.errors import CheckpointError, ConfigError
from training_core.llm.learning.learner import Learner
from training_core.llm.learning.learner_config import Learner as LearnerSettings
from training_core.llm.learning.packing import make_micro_batches
from training_core.llm.learning.policy_checkpoint import load_policy, save_policy
from training_core.types import Group


def learner(algorithm: Ppo | AtGrpo | None = None, kind: str = "llama", **settings: object) -> Learner:
    policy = Policy(learner=LearnerSettings(**{"schedule": "constant", **settings}))
    return Learner(policy, algorithm or Ppo(), make_model(kind), 40)


@torch.no_grad()
def naive_values(one: Learner, prompt: list[int], answer: list[int]) -> list[float]:
    """The head by one plain forward pass: of what comes before each token of the answer."""
    assert one.critic is not None
    hidden = one.model.base_model(input_ids=torch.tensor([prompt + answer])).last_hidden_state[0]
    return [float(one.critic.head(hidden[len(prompt) - 1 + place])) for place in range(len(answer))]


def naive_update(one: Learner, groups: list[Group], algorithm: Ppo) -> tuple[float, float, float]:
    """(loss, value loss, explained variance) of one update's first step, by loops over responses and tokens."""
    base = make_model()
    tokens: list[tuple[float, float, float, float]] = []
    for group in groups:
        for answer, score in zip(group.answers, group.advantages, strict=True):
            now = naive_logprobs(one.model, group.prompt_ids, answer.token_ids)
            plain = naive_logprobs(base, group.prompt_ids, answer.token_ids)
            values = naive_values(one, group.prompt_ids, answer.token_ids)
            rewards = [-algorithm.kl_coefficient * (new - old) for new, old in zip(now, plain, strict=True)]
            rewards[-1] += score
            advantage, after, judged = 0.0, 0.0, []
            for reward, value in zip(reversed(rewards), reversed(values), strict=True):
                delta = reward + algorithm.discount * after - value
                advantage = delta + algorithm.discount * algorithm.gae_lambda * advantage
                after = value
                judged.append(advantage)
            ratios = [math.exp(new - old) for new, old in zip(now, answer.logprobs, strict=True)]
            tokens += [
                (gained, value, gained + value, ratio)
                for gained, value, ratio in zip(reversed(judged), values, ratios, strict=True)
            ]
    count = len(tokens)
    mean = sum(gained for gained, *_ in tokens) / count
    squares = sum((gained - mean) ** 2 for gained, *_ in tokens)
    std = math.sqrt(squares / (count - 1))
    policy, worth = 0.0, 0.0
    for gained, value, earned, ratio in tokens:
        white = (gained - mean) / (std + 1e-6)
        policy += max(-ratio * white, -min(max(ratio, 0.8), 1.2) * white) / count
        worth += (value - earned) ** 2 / 2 / count
    middle = sum(earned for _, _, earned, _ in tokens) / count
    explained = 1 - squares / sum((earned - middle) ** 2 for _, _, earned, _ in tokens)
    return policy + algorithm.value_coefficient * worth, worth, explained


@pytest.mark.parametrize("packing", [True, False])
@pytest.mark.parametrize("kl", [0.0, 0.5])
def test_an_update_is_that_of_a_naive_loop(packing: bool, kl: float) -> None:
    """The second one: by then values are not 0, and policy and base model are apart."""
    algorithm = Ppo(discount=0.9, gae_lambda=0.8, kl_coefficient=kl, value_learning_rate=0.02)
    for limit in (10_000, 8):
        one = learner(algorithm, packing=packing, micro_batch_tokens=limit, learning_rate=1e-2)
        groups = off_policy_groups()
        one.update(groups, 1, 0)
        loss, worth, explained = naive_update(one, groups, algorithm)
        metrics = one.update(groups, 2, 0).metrics
        assert metrics["loss"] == pytest.approx(loss, abs=1e-4)
        assert metrics["value_loss"] == pytest.approx(worth, abs=1e-5)
        assert metrics["explained_variance"] == pytest.approx(explained, abs=1e-4)


def test_values_learn_what_prompts_are_worth() -> None:
    """Two prompts that always earn 1 and -1, a group of one each: explained variance rises from 0 to nearly 1."""
    one = learner(Ppo(value_clip=0.0, value_learning_rate=0.01), learning_rate=1e-4)
    groups = [
        make_group(one.model, [6, 7], [[9, 2]], [1.0]),
        make_group(one.model, [10, 11], [[9, 2]], [-1.0]),
    ]
    seen = [one.update(groups, iteration, 0).metrics for iteration in range(1, 41)]
    assert seen[0]["explained_variance"] == pytest.approx(0.0, abs=1e-6)
    assert seen[-1]["explained_variance"] > 0.95
    assert seen[-1]["value_loss"] < 0.05 * seen[0]["value_loss"]
    assert naive_values(one, [6, 7], [9, 2])[0] > 0.7 and naive_values(one, [10, 11], [9, 2])[0] < -0.7


def test_the_value_loss_trains_the_trunk_too() -> None:
    """Without a policy loss (all advantages are their mean) the trunk moves only where the values' loss has weight."""
    moved = []
    for weight in (0.0, 1.0):
        one = learner(
            Ppo(value_coefficient=weight, gae_lambda=1.0), learning_rate=1e-2, minibatches=1, epochs=2
        )
        groups = [make_group(one.model, [6, 7], [[9], [8]], [1.0, 1.0])]
        before = flat(one).clone()
        one.update(groups, 1, 0)
        moved.append(not torch.equal(flat(one), before))
    assert moved == [False, True]


@pytest.mark.parametrize("kind", ["llama", "qwen2", "gpt_neox"])
def test_a_model_that_is_not_split_is_judged_by_the_same_states(kind: str) -> None:
    """Its last hidden states are asked for instead, as of an architecture that changes its logits afterwards."""
    one = learner(kind=kind)
    piece = next(make_micro_batches([0, 1], off_policy_groups(), one._micro_batch_options()))
    assert one.forward.splits
    with torch.no_grad():
        scores, hidden = one.forward.scores_and_hidden(one.model, piece)
        one.forward.__dict__["splits"] = False
        whole, states = one.forward.scores_and_hidden(one.model, piece)
    assert torch.allclose(scores.logprobs, whole.logprobs, atol=1e-5)
    assert torch.allclose(hidden, states, atol=1e-5)


def fresh() -> Learner:
    return learner(Ppo(kl_coefficient=0.1), minibatches=2, epochs=2)


def test_a_checkpoint_without_its_head_is_not_complete(tmp_path: Path) -> None:
    save_policy(tmp_path, fresh(), TOKENIZER, 1)
    (tmp_path / "critic.safetensors").unlink()
    with pytest.raises(CheckpointError, match="not complete"):
        load_policy(tmp_path, fresh())


def test_another_algorithm_goes_on_from_it_and_it_from_another(tmp_path: Path) -> None:
    """A fork may change the algorithm: a critic begins anew, or is left behind."""
    critical, plain = fresh(), learner(AtGrpo())
    critical.update(off_policy_groups(), 1, 0)
    save_policy(tmp_path / "ppo", critical, TOKENIZER, 1)
    load_policy(tmp_path / "ppo", plain)
    assert torch.equal(flat(plain), flat(critical))
    save_policy(tmp_path / "at_grpo", plain, TOKENIZER, 1)
    assert not json.loads((tmp_path / "at_grpo" / "policy.json").read_text())["critic"]
    again = fresh()
    load_policy(tmp_path / "at_grpo", again)
    assert again.critic is not None and not again.critic.head.weight.any()


def test_deepspeed_is_refused_with_the_remedy() -> None:
    wrong = {"algorithm": {"type": "ppo"}, "policies.planner.learner": {"type": "deepspeed"}}
    with pytest.raises(ConfigError) as caught:
        load_config("plan_path_duo", wrong)
    assert 'use "torch"' in caught.value.fields["policies.planner.learner.type"]


def test_a_group_of_one_will_do() -> None:
    config = load_config("plan_path_duo", {"algorithm": {"type": "ppo"}, "rollout.group_size": 1})
    assert config.rollout.group_size == 1
