"""Every field is read by code; settings without effect in a combination are reported, with the reason."""

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import pytest

from training_core.config.base import Section
from training_core.config.effects import Reversed, questionable_settings, rule_of, unused_settings
from training_core.config.files import load_config, parse_config, preset_names, set_fields
from training_core.config.kinds import CONFIG_KINDS
from training_core.config.run import ENVIRONMENT_CONFIGS
from training_core.errors import ConfigError

ROOT = Path(__file__).parents[3]
SHOWN_ONLY = {"description", "tags"}
"""Texts that people read: they are stored with the run."""
PASSED_ON = {"strict", "num_forests"}
"""Given as a keyword argument to a function of the user's choice (reward_source), or to the package mpe2."""


def sections(kind: Any, found: set[type[Section]]) -> set[type[Section]]:
    """All section classes that a field of this kind may hold."""
    if isinstance(kind, type) and issubclass(kind, Section):
        if kind not in found:
            found.add(kind)
            for field in kind.model_fields.values():
                sections(field.annotation, found)
    else:
        for part in get_args(kind):
            sections(part, found)
    return found


SECTIONS = sorted(
    {section for kind in CONFIG_KINDS.values() for section in sections(kind.config, set())},
    key=lambda section: section.__name__,
)
LEAVES = [
    (section, name)
    for section in SECTIONS
    for name, field in section.model_fields.items()
    if not sections(field.annotation, set())
]


def read_names() -> set[str]:
    """Names that code reads as attributes or by text, outside of the rules of effects."""
    found: set[str] = set()
    for package in ("training_core", "workers", "troupe_client", "webapp"):
        for file in (ROOT / package).rglob("*.py"):
            if file.name != "effects.py" and "migrations" not in file.parts:
                found |= set(_read(ast.parse(file.read_text())))
    return found


def _read(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.AnnAssign) and ast.unparse(node.target) == "effects":
        return
    if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
        yield node.attr
    elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.isidentifier():
        yield node.value
    for below in ast.iter_child_nodes(node):
        yield from _read(below)


def test_rules_name_fields_that_exist() -> None:
    assert len(LEAVES) > 450
    for section in SECTIONS:
        for kind in section.__mro__:
            assert set(vars(kind).get("effects", {})) <= section.model_fields.keys(), section.__name__


def test_an_environment_of_language_models_says_when_each_field_has_an_effect() -> None:
    for section in ENVIRONMENT_CONFIGS.values():
        silent = [name for name in section.model_fields if name != "type" and rule_of(section, name) is None]
        assert not silent, section.__name__


def test_every_leaf_is_read_by_code() -> None:
    read = read_names()
    unread = {
        f"{section.__name__}.{name}" for section, name in LEAVES if name not in read | SHOWN_ONLY | PASSED_ON
    }
    assert not unread


@pytest.mark.parametrize("preset", preset_names())
def test_no_preset_has_a_setting_without_effect(preset: str) -> None:
    """Nor one that reverses another one."""
    assert [str(each) for each in questionable_settings(load_config(preset))] == []


def unused(preset: str = "plan_path_duo", **overrides: Any) -> dict[str, str]:
    found = unused_settings(
        load_config(preset, {key.replace("__", "."): value for key, value in overrides.items()})
    )
    return {each.path: each.why for each in found}


def test_a_setting_says_what_it_needs() -> None:
    told = unused(
        algorithm__kl_coefficient=0.0,
        algorithm__kl_estimator="k1",
        algorithm__filter_low=0.2,
        algorithm__correction_cap=3.0,
    )
    assert told == {
        "algorithm.kl_estimator": "kl_coefficient = 0.0 leaves it unused",
        "algorithm.filter_low": 'only with group_filter = "mean" or group_filter = "std"',
        "algorithm.correction_cap": 'correction = "none" leaves it unused',
        "health.kl_blow_up.above": "the KL from the base model is only computed with algorithm.kl_coefficient above 0",
    }


@pytest.mark.parametrize(
    ("overrides", "paths"),
    [
        ({"rollout.wave": 2, "rollout.partial": False, "rollout.stale": "drop"}, ["stale", "wave", "partial"]),
        ({"rollout.epoch_tasks": 4}, ["epoch_tasks"]),
        ({"evaluation.every": 0, "evaluation.episodes": 8, "checkpoint.keep_best": 2}, ["episodes", "keep_best"]),
        ({"evaluation.greedy": False, "evaluation.sampled": False, "evaluation.every": 5, "evaluation.episodes": 9,
          "checkpoint.best_of": "train/return"}, ["every", "episodes"]),
        ({"reporting.wandb_mode": "online", "reporting.project": "x"}, ["project", "wandb_mode"]),
        ({"health.enabled": False, "health.truncation.above": 0.5}, ["above", "above", "above"]),
        ({"algorithm.kl_coefficient": 0.0, "health.kl_blow_up.above": 2.0}, ["above"]),
        ({"team.roles.executor.trained": False, "policies.executor.learner.epochs": 3}, ["epochs", "minibatches"]),
        ({"policies.planner.devices.update_cpus": 1.0}, ["update_cpus"]),
        ({"policies.planner.learner.schedule": "constant", "policies.planner.learner.final_learning_rate": 1e-5}, ["final_learning_rate"]),
        ({"policies.planner.warm_start.batch": 4}, ["batch"]),
        ({"workflow.type": "agent", "team.roles.planner.may_pass": True, "environment.goal_reward": 2.0}, ["may_pass", "goal_reward"]),
        ({"workflow.type": "agent", "workflow.concurrency": 3}, ["concurrency"]),
        ({"workflow.type": "agent", "workflow.path": "a:B", "workflow.patience": 3.0}, ["patience"]),
        ({"algorithm.local_weight": 0.0, "environment.shaping": 0.5}, ["shaping"]),
        ({"environment.shaping": 0.0, "environment.shaping_discount": 0.9}, ["shaping_discount"]),
        ({"algorithm.reshape": "discount"}, ["reshape"]),
        ({"algorithm.overlong_tokens": 2, "algorithm.overlong_share": 0.1}, ["overlong_share"]),
        ({"algorithm.policy_loss": "reinforce", "algorithm.clip_low": 0.1, "algorithm.dual_clip": 2.0}, ["clip_low", "dual_clip"]),
    ],
)  # fmt: skip
def test_combinations_in_which_a_setting_changes_nothing(overrides: dict[str, Any], paths: list[str]) -> None:
    found = unused_settings(load_config("plan_path_duo", overrides))
    assert [each.path.rsplit(".", 1)[-1] for each in found] == paths


AGENT = {"workflow.type": "agent"}
PLANNER = "policies.planner.learner."


@pytest.mark.parametrize(
    ("preset", "overrides", "path", "other"),
    [
        ("plan_path_duo", {f"{PLANNER}learning_rate": 1e-9}, f"{PLANNER}final_learning_rate", "learning_rate = 1e-09"),
        ("plan_path_duo", {f"{PLANNER}learning_rate": 1e-9, f"{PLANNER}schedule": "constant"}, "", ""),
        ("plan_path_duo", {f"{PLANNER}warmup_iterations": 9, "run.iterations": 8}, f"{PLANNER}warmup_iterations", "run.iterations = 8"),
        ("plan_path_duo", {"run.iterations": 20, "run.early_stopping": 2, "evaluation.every": 10}, "run.early_stopping",
         "run.iterations = 20"),
        ("plan_path_duo", {"run.iterations": 21, "run.early_stopping": 2, "evaluation.every": 10}, "", ""),
        ("plan_path_duo", {"algorithm.dual_clip": 1.1}, "algorithm.dual_clip", "clip_high = 1.2"),
        ("plan_path_duo", {"algorithm.dual_clip": 0.0}, "", ""),
        ("plan_path_duo", {"algorithm.overlong_tokens": 9}, "algorithm.overlong_tokens", "sampling.max_tokens = "),
        ("plan_path_duo", {"team.roles.planner.speaks.first": 6, "team.roles.planner.speaks.last": 0}, "team.roles.planner.speaks.first",
         "environment.max_turns = 5"),
        ("plan_path_duo", {"team.alternate": 5, "run.iterations": 5}, "team.alternate", "run.iterations = 5"),
        ("plan_path_duo", {"team.alternate": 5, "run.iterations": 6}, "", ""),
        ("plan_path_duo", AGENT | {"workflow.patience": 60.0}, "workflow.patience", "workflow.timeout = 600"),
        ("plan_path_duo", AGENT | {"workflow.patience": 0.0}, "", ""),
        ("plan_path_duo", AGENT | {"workflow.failure_reward": 1.5}, "workflow.failure_reward", "workflow.success_at = 1"),
        ("plan_path_duo", {"policies.planner.devices.placement": "apart", "policies.executor.devices.placement": "apart",
                           "rollout.staleness": 200, "rollout.publish_every": 101, "run.iterations": 100}, "rollout.publish_every",
         "run.iterations = 100"),
        ("plan_path_duo", {"policies.planner.engine.type": "vllm", "policies.planner.engine.context": 8}, "policies.planner.engine.context",
         "sampling.max_tokens = "),
        ("spread_mappo", {"evaluation.episodes": 1}, "evaluation.probes", "evaluation.episodes = 1"),
        ("foraging_mappo", {"environment.step_penalty": -1.0}, "environment.step_penalty", "penalty below 0"),
    ],
)  # fmt: skip
def test_a_setting_that_reverses_another_one_is_reported(
    preset: str, overrides: dict[str, Any], path: str, other: str
) -> None:
    """With both fields, and what to do; not at the bound's other side."""
    found = [
        each for each in questionable_settings(load_config(preset, overrides)) if isinstance(each, Reversed)
    ]
    assert [each.path for each in found] == ([path] if path else [])
    assert all(other in str(each) and str(each).startswith(f"{path}: ") for each in found)


def test_a_policy_that_no_role_uses_is_reported_whole() -> None:
    told = unused(policies__spare={"model": "x", "learner": {"type": "deepspeed"}})
    assert told == {
        "policies.spare.model": "no role uses this policy",
        "policies.spare.learner.type": "no role uses this policy",
    }


def test_small_networks_have_rules_of_their_own() -> None:
    told = unused("spread_mappo", algorithm__value_clip=0.1, algorithm__critic_sees="team")
    assert list(told) == ["algorithm.value_clip", "algorithm.critic_sees"]
    with pytest.raises(ConfigError, match="health.too_easy: there is no such field"):
        load_config("spread_mappo", {"health.too_easy.above": 0.5})


def test_what_is_stored_in_full_is_reported_as_what_was_written() -> None:
    config = load_config("plan_path_duo", {"algorithm.correction_cap": 3.0})
    whole = parse_config(config.model_dump(mode="json"))
    short = parse_config(set_fields(config))
    assert unused_settings(whole) == unused_settings(short) == unused_settings(config) != []
