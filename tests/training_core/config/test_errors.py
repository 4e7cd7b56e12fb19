"""Errors between fields are stated together with errors of single fields, unless they read a wrong field."""

from typing import Any

import pytest

from training_core.config.files import load_config, parse_config, preset_names, read_preset
from training_core.errors import ConfigError

GROUP = {"rollout.group_size": 1}
PROBES = {"evaluation.probes": 300}
ROOM = {"resources.environments_per_worker": 1}


def wrong(overrides: dict[str, Any], preset: str = "plan_path_duo") -> dict[str, str]:
    with pytest.raises(ConfigError) as caught:
        load_config(preset, overrides)
    return caught.value.fields


@pytest.mark.parametrize(
    ("overrides", "paths"),
    [
        (GROUP | {"run.seed": "many"}, ["run.seed", "rollout.group_size"]),
        (GROUP | {"run.sed": 1}, ["run.sed", "rollout.group_size"]),
        (GROUP | PROBES, ["rollout.group_size", "evaluation.probes"]),
        (
            GROUP | PROBES | ROOM,
            ["rollout.group_size", "resources.environments_per_worker", "evaluation.probes"],
        ),
        (PROBES | {"environment.type": "dataset"}, ["environment.path", "evaluation.probes"]),
        (PROBES | {"environment.type": "maze"}, ["environment.type", "evaluation.probes"]),
        (PROBES | {"run.tags": [1]}, ["run.tags.0", "evaluation.probes"]),
        (PROBES | {"policies.planner": 3}, ["policies.planner", "evaluation.probes"]),
        (
            {"team.roles.executor.policy": "nobody", "run.seed": -1},
            ["run.seed", "team.roles.executor.policy"],
        ),
        (
            {"team.roles.planner.speaks": {"first": 3, "last": 2}, "run.seed": -1},
            ["run.seed", "team.roles.planner.speaks.last"],
        ),
    ],
)
def test_errors_of_and_between_fields_are_stated_together(
    overrides: dict[str, Any], paths: list[str]
) -> None:
    assert list(wrong(overrides)) == paths


@pytest.mark.parametrize(
    ("overrides", "path"),
    [
        ({"rollout.group_size": "few", "algorithm.leave_one_out": True}, "rollout.group_size"),
        (ROOM | {"rollout.tasks": "few"}, "rollout.tasks"),
        (PROBES | {"evaluation.episodes": 0}, "evaluation.episodes"),
        (GROUP | {"algorithm.type": "at_gpro"}, "algorithm.type"),
        ({"policies.planner": 3, "team.roles.executor.policy": "planner"}, "policies.planner"),
    ],
)
def test_an_error_that_depends_on_a_wrong_field_is_not_stated(overrides: dict[str, Any], path: str) -> None:
    assert list(wrong(overrides)) == [path]


def test_networks_state_both_and_omit_what_depends_on_wrong_fields() -> None:
    short = {"rollout.steps": 10, "rollout.fresh": "always"}
    assert list(wrong(short | {"run.seed": -1}, "spread_mappo")) == ["run.seed", "rollout.fresh"]
    unknown = short | {"environment.max_cycles": "long"}
    assert list(wrong(unknown, "spread_mappo")) == ["environment.max_cycles"]


@pytest.mark.parametrize("tree", [{}, {"team": 3}, {"team": {}}, {"policies": []}])
def test_a_tree_without_its_root_fields_states_those(tree: dict[str, Any]) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_config(tree)
    assert caught.value.fields


@pytest.mark.parametrize("preset", preset_names())
def test_a_wrong_seed_is_the_only_error_of_a_preset(preset: str) -> None:
    assert list(wrong({"run.seed": "x"}, preset)) == ["run.seed"]


def test_the_tree_of_the_caller_is_not_changed() -> None:
    tree = read_preset("plan_path_duo") | {"run": {"seed": "x"}}
    with pytest.raises(ConfigError):
        parse_config(tree)
    assert tree["run"] == {"seed": "x"}
