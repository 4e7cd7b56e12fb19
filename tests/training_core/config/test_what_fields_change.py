"""Each setting of an algorithm, a role or a learner changes what is learnt, or is reported as unused and changes nothing.

Episodes are played at the counting toy by scripted policies, grouped, and learnt from twice by a small model: what comes of it
is a fingerprint of rewards, advantages, metrics and weights.
"""

from dataclasses import replace
from functools import cache
from typing import Any

import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from tests.training_core.llm.workflows.counting import (
    TOKENIZER,
    Counting,
    CountingEnvironment,
    Recorder,
    make_context,
)
from training_core.config.base import EnvironmentSection
from training_core.config.effects import unused_settings
from training_core.llm.environments.registry import ENVIRONMENTS, EnvironmentKind
from training_core.llm.learning.learner import Learner
from training_core.llm.learning.training_groups import make_groups
from training_core.llm.workflows.episodes import play_episodes
from training_core.llm.workflows.turn_tree import play_turn_tree
from training_core.types import Group

pytestmark = pytest.mark.extended

EPISODES = {"workflow.type": "episodes", "resources.environments_per_worker": 400}
KL = {"algorithm.kl_coefficient": 0.3}
NO_KL = {"algorithm.kl_coefficient": 0.0}
APART = {"algorithm.std_level": "none"}
CHANGES: list[tuple[dict[str, Any], str, Any]] = [
    # where it has an effect, the field, another value
    ({}, "algorithm.team_weight", 3.0),
    ({}, "algorithm.local_weight", 0.0),
    (EPISODES, "algorithm.local_weight", 0.0),
    ({}, "algorithm.mean_level", "none"),
    ({}, "algorithm.std_level", "batch"),
    (APART, "algorithm.leave_one_out", True),
    ({}, "algorithm.unbiased_std", False),
    ({"algorithm.std_level": "none", "algorithm.batch_whitening": True}, "algorithm.unbiased_std", False),
    (APART, "algorithm.batch_whitening", True),
    ({}, "algorithm.policy_loss", "reinforce"),
    ({}, "algorithm.policy_loss", "cispo"),
    ({}, "algorithm.clip_low", 0.01),
    ({}, "algorithm.clip_high", 0.01),
    ({"algorithm.clip_low": 0.0}, "algorithm.dual_clip", 1.001),
    ({}, "algorithm.entropy_coefficient", 0.5),
    ({}, "algorithm.kl_coefficient", 0.3),
    (KL, "algorithm.kl_estimator", "k2"),
    (KL, "algorithm.kl_in", "reward"),
    ({}, "algorithm.loss_average", "sequence"),
    ({}, "algorithm.loss_average", "constant"),
    ({"algorithm.reshape": "binary", "algorithm.reshape_threshold": 50.0}, "algorithm.drop_zero_variance", False),
    ({"algorithm.filter_low": 0.9}, "algorithm.group_filter", "std"),
    ({"algorithm.group_filter": "mean"}, "algorithm.filter_low", 130.0),
    ({"algorithm.group_filter": "mean"}, "algorithm.filter_high", 130.0),
    ({"algorithm.group_filter": "std"}, "algorithm.filter_ratio", 0.5),
    (APART, "algorithm.reshape", "discount"),
    ({}, "algorithm.reshape", "binary"),
    (APART, "algorithm.reshape", "normalised"),
    (APART | {"algorithm.reshape": "discount"}, "algorithm.reshape_discount", 0.5),
    ({"algorithm.reshape": "binary"}, "algorithm.reshape_threshold", 101.5),
    (APART | {"algorithm.reshape": "shaped"}, "algorithm.reshape_weight", 0.2),
    ({}, "algorithm.overlong_tokens", 6),
    ({}, "algorithm.overlong_share", 0.9),
    ({"algorithm.overlong_tokens": 6}, "algorithm.overlong_penalty", 9.0),
    ({}, "algorithm.correction", "truncate"),
    ({"algorithm.correction": "truncate"}, "algorithm.correction_cap", 1e-4),
    ({"algorithm.correction": "mask", "algorithm.correction_cap": 9.0}, "algorithm.correction_floor", 8.0),
    ({"algorithm.type": "reinforce_plus_plus"}, "algorithm.discount", 0.5),
    ({"algorithm.type": "reinforce_plus_plus_baseline"}, "algorithm.discount", 0.5),
    ({"algorithm.type": "ppo"}, "algorithm.discount", 0.5),
    ({"algorithm.type": "ppo"}, "algorithm.gae_lambda", 0.1),
    ({"algorithm.type": "ppo"}, "algorithm.whiten_advantages", False),
    ({"algorithm.type": "ppo"}, "algorithm.value_coefficient", 0.1),
    ({"algorithm.type": "ppo"}, "algorithm.value_clip", 1e-3),
    ({"algorithm.type": "ppo"}, "algorithm.value_learning_rate", 1e-4),
    ({"algorithm.type": "rae"}, "algorithm.baseline_decay", 0.2),
    ({}, "policies.planner.learner.learning_rate", 0.02),
    ({}, "policies.planner.learner.schedule", "constant"),
    ({}, "policies.planner.learner.final_learning_rate", 0.0005),
    ({}, "policies.planner.learner.warmup_iterations", 2),
    ({}, "policies.planner.learner.betas", [0.5, 0.9]),
    ({}, "policies.planner.learner.weight_decay", 0.5),
    ({}, "policies.planner.learner.max_grad_norm", 0.01),
    ({}, "policies.planner.learner.epochs", 2),
    ({}, "policies.planner.learner.minibatches", 2),
    ({}, "policies.planner.learner.packing", False),
    ({}, "policies.planner.learner.micro_batch_tokens", 40),
    ({}, "team.roles.planner.sampling.temperature", 0.5),
    ({}, "team.roles.planner.sampling.top_k", 3),
    ({}, "team.roles.planner.prompt", "task"),
    ({}, "team.roles.planner.trained", False),
    ({}, "team.roles.executor.speaks.every", 2),
    ({}, "team.turn_order", ["executor", "planner"]),
    ({}, "team.parallel", ["planner", "executor"]),
    ({}, "rollout.group_size", 2),
    ({}, "workflow.carry", "sampled"),
]  # fmt: skip
NOTHING: list[tuple[dict[str, Any], str, Any]] = [
    # where it is reported as unused, the field, another value
    ({"algorithm.mean_level": "none"}, "algorithm.leave_one_out", True),
    (APART, "algorithm.unbiased_std", False),
    ({"algorithm.policy_loss": "reinforce"}, "algorithm.clip_low", 0.01),
    ({"algorithm.policy_loss": "reinforce"}, "algorithm.clip_high", 0.01),
    ({"algorithm.policy_loss": "cispo"}, "algorithm.dual_clip", 1.001),
    (NO_KL, "algorithm.kl_estimator", "k2"),
    (NO_KL, "algorithm.kl_in", "reward"),
    ({}, "algorithm.filter_low", 130.0),
    ({}, "algorithm.filter_high", 130.0),
    ({}, "algorithm.filter_ratio", 0.5),
    ({}, "algorithm.reshape_discount", 0.5),
    ({}, "algorithm.reshape_threshold", 101.5),
    ({}, "algorithm.reshape_weight", 0.2),
    ({"algorithm.overlong_tokens": 3}, "algorithm.overlong_share", 0.9),
    ({}, "algorithm.overlong_penalty", 9.0),
    ({}, "algorithm.correction_cap", 1.5),
    ({"algorithm.correction": "truncate"}, "algorithm.correction_floor", 0.8),
    ({"policies.planner.learner.schedule": "constant"}, "policies.planner.learner.final_learning_rate", 0.0005),
    ({"team.roles.executor.trained": False}, "policies.executor.learner.epochs", 2),
    ({}, "policies.planner.learner.offload", "on"),
    ({"rollout.group_size": 1, "algorithm.type": "reinforce_plus_plus", "algorithm.kl_coefficient": 0.0}, "workflow.carry", "sampled"),
]  # fmt: skip


def plan(seen: str, prompt: Any, index: int) -> str:
    """A number, and up to two tokens more than it needs."""
    return "1224"[(index + prompt.key.task) % 4] + " <eos>" * (index % 3)


def off_policy(group: Group) -> Group:
    """With logprobs of a sampler that was a little off, to both sides."""
    answers = [
        replace(
            answer,
            logprobs=[
                value + (-0.4, 0.3, 0.1)[(place + turn) % 3] for turn, value in enumerate(answer.logprobs)
            ],
        )
        for place, answer in enumerate(group.answers)
    ]
    return replace(group, answers=answers)


def blank(group: Group) -> Group:
    """Without logprobs, which the learner then computes."""
    return replace(group, answers=[replace(answer, logprobs=[]) for answer in group.answers])


def model_of(seed: int) -> LlamaForCausalLM:
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        sizes = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2}
        tokens = {
            "vocab_size": len(TOKENIZER),
            "eos_token_id": TOKENIZER.eos_token_id,
            "pad_token_id": TOKENIZER.pad_token_id,
        }
        return LlamaForCausalLM(
            LlamaConfig(**sizes, **tokens, bos_token_id=None, max_position_embeddings=64)
        ).eval()


def fingerprint(settings: dict[str, Any]) -> str:
    """What is played, paid and learnt in two iterations."""
    context = make_context(
        {"planner": Recorder(plan), "executor": Recorder(plan)},
        Counting(turns=3),
        **{path.replace(".", "__"): value for path, value in settings.items()},
    )
    config = context.config
    play = play_episodes if config.workflow.type == "episodes" else play_turn_tree
    learners = {
        name: Learner(config.policies[name], config.algorithm, model_of(place), 3)
        for place, name in enumerate(config.trained_policies)
    }
    seen: list[Any] = []
    baselines: dict[str, float] = {}
    for iteration in (1, 2):
        episodes = play([0, 1, 2], context)
        batch = make_groups(episodes, config, baselines)
        baselines = batch.baselines
        seen += [
            (turn.role, turn.executed, candidate.reward, candidate.advantage, candidate.answer.text)
            for episode in episodes
            for turn in episode.turns
            for candidate in turn.candidates
        ]
        for name, one in learners.items():
            groups = [
                off_policy(group)
                for group in one.fill_missing_logprobs(list(map(blank, batch.groups[name])), 0)
            ]
            result = one.update(groups, iteration, 0)
            seen.append(sorted(result.metrics.items()))
            seen.append([float(tensor.double().sum()) for tensor in one.weights().values()])
    return repr(seen)


@pytest.fixture(autouse=True)
def _counting_world(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(ENVIRONMENTS, "counting", EnvironmentKind(EnvironmentSection, CountingEnvironment))


@cache
def standard(key: str) -> str:
    return fingerprint(dict(eval(key)))


BASE = {"policies.planner.learner.micro_batch_tokens": 4096}


@pytest.mark.parametrize(("where", "field", "value"), CHANGES, ids=lambda part: str(part)[:60])
def test_a_setting_changes_what_is_learnt(where: dict[str, Any], field: str, value: Any) -> None:
    settings = BASE | where
    changed = settings | {field: value}
    assert field not in {each.path for each in unused_settings(make_context({}, **dotted(changed)).config)}
    assert fingerprint(changed) != standard(repr(settings))


@pytest.mark.parametrize(("where", "field", "value"), NOTHING, ids=lambda part: str(part)[:60])
def test_a_setting_that_is_reported_as_unused_changes_nothing(
    where: dict[str, Any], field: str, value: Any
) -> None:
    settings = BASE | where
    changed = settings | {field: value}
    assert field in {each.path for each in unused_settings(make_context({}, **dotted(changed)).config)}
    assert fingerprint(changed) == standard(repr(settings))


def dotted(settings: dict[str, Any]) -> dict[str, Any]:
    return {path.replace(".", "__"): value for path, value in settings.items()}
