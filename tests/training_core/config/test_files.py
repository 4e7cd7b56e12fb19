"""Presets, TOML, overrides, and what the user is told when a config is wrong."""

from pathlib import Path

import pytest

from tests.architecture.source import ROOT
from training_core.algorithms.config import AtGrpo
from training_core.algorithms.registry import ALGORITHM_CONFIGS
from training_core.config.files import (
    apply_overrides,
    load_config,
    parse_config,
    parse_overrides,
    parse_value,
    preset_names,
    read_gallery,
    read_preset,
    read_toml,
    set_fields,
    to_toml,
)
from training_core.config.rollout import Episodes
from training_core.errors import ConfigError

SERVER = {"type": "openai", "urls": ["http://h"], "weights_folder": "/w"}
WRONG = [
    ({"run.sed": 1}, "run.sed", "there is no such field"),
    ({"run.seed": "many"}, "run.seed", "give a whole number"),
    ({"run.seed": -1}, "run.seed", "give 0 or more"),
    ({"run.seed.x": 1}, "run.seed", "give a whole number"),
    ({"team.roles.executor.policy": "nobody"}, "team.roles.executor.policy", "there is no policy 'nobody'"),
    ({"team.turn_order": ["planner", "judge"]}, "team.turn_order", "names judge"),
    ({"team.turn_order": ["planner"]}, "team.turn_order", "omits executor"),
    ({"team.roles.judge.policy": "planner"}, "team.roles", "plan_path needs the roles planner, executor, not planner"),
    ({"team.roles.planner.trained": False, "team.roles.executor.trained": False}, "team.roles", "no role is trained"),
    ({"rollout.group_size": 1}, "rollout.group_size", "a group of one has no advantage"),
    ({"rollout.group_size": 1, "algorithm.mean_level": "batch", "algorithm.leave_one_out": True},
     "algorithm.leave_one_out", "needs rollout.group_size of 2"),
    ({"resources.environments_per_worker": 20}, "resources.environments_per_worker", "raise it to 24"),
    ({"policies.planner.learner.minibatches": 49}, "policies.planner.learner.minibatches", "more minibatches"),
    ({"policies.planner.devices.rollout_workers": 2}, "policies.planner.devices", 'placement = "apart"'),
    ({"evaluation.probes": 300}, "evaluation.probes", "at most evaluation.episodes = 256"),
    ({"environment.size": 3, "environment.wall_share": 0.5, "environment.type": "maze"}, "environment.type", "plan_path"),
    ({"resources.environment_workers": 10**9}, "resources.environment_workers", "give 10000 or less"),
    ({"policies.planner.devices": {"placement": "apart", "rollout_workers": 10**9}},
     "policies.planner.devices.rollout_workers", "give 1000 or less"),
    ({"policies.planner.engine": {"type": "vllm", "gpu_memory": "all"}}, "policies.planner.engine.gpu_memory", "give a number"),
    ({"policies.planner.engine": SERVER}, "policies.planner.engine.type", 'set devices.placement = "apart"'),
    ({"policies.planner.adapter": {"type": "lora", "rank": 0}}, "policies.planner.adapter.rank", "give 1 or more"),
    ({"policies.planner.learner": {"type": "deepspeed", "zero_stage": 9}},
     "policies.planner.learner.zero_stage", "give 3 or less"),
    ({"environment.type": "dataset"}, "environment.path", "this field is required"),
    ({"environment.type": "dataset", "environment.path": ""}, "environment.path", "this field is required"),
    ({"environment.type": "custom", "environment.path": ""}, "environment.path", "this field is required"),
    ({"workflow.type": "agent", "workflow.args": "word"}, "workflow.args", "write one `name = value`"),
    ({"workflow.type": "agent", "workflow.args": {"deep": [{"most": None}]}}, "workflow.args", "most is null"),
    ({"workflow.type": "agent", "workflow.args": {"a.b": 1}}, "workflow.args", "no dots"),
    ({"team.roles.planner.agent": {"path": "a:B", "args": {"x": None}}}, "team.roles.planner.agent.args", "x is null"),
    ({"run.iterations": "many"}, "run.iterations", "give a whole number"),
    ({"evaluation.greedy": "perhaps"}, "evaluation.greedy", "give true or false"),
    ({"run.iteration": 5}, "run.iteration", "there is no such field; did you mean run.iterations?"),
    ({"group_size": 8}, "group_size", "there is no such field; did you mean rollout.group_size?"),
    ({"policies.planner.learner.epoch": 1}, "policies.planner.learner.epoch", "did you mean policies.planner.learner.epochs?"),
    ({"algorithm.policy_loss": "clipp"}, "algorithm.policy_loss", "; did you mean 'clip'?"),
    ({"algorithm.type": "at_gpro"}, "algorithm.type", "there is no type 'at_gpro'; use one of"),
    ({"algorithm.type": "at_gpro"}, "algorithm.type", "; did you mean 'at_grpo'?"),
    ({"team.roles": {f"r{n}": {"policy": "planner"} for n in range(65)}}, "team.roles", "at most 64 items"),
]  # fmt: skip


@pytest.mark.parametrize(("overrides", "path", "text"), WRONG)
def test_a_wrong_config_is_told_at_its_field(overrides: dict[str, object], path: str, text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load_config("plan_path_duo", overrides)
    assert path in caught.value.fields
    assert text in caught.value.fields[path]


def test_an_unknown_preset_names_those_there_are() -> None:
    with pytest.raises(
        ConfigError, match=r"no preset 'plan_pth_duo'; did you mean plan_path_duo\? Presets are .*sudoku"
    ):
        load_config("plan_pth_duo")


def preset_file(name: str) -> Path:
    return next((ROOT / "training_core").rglob(f"presets/{name}.toml"))


@pytest.mark.parametrize("name", preset_names())
def test_a_preset_is_among_the_environments_of_its_agents(name: str) -> None:
    package = type(load_config(name).environment).__module__.split(".")[:3]
    assert preset_file(name).is_relative_to(ROOT.joinpath(*package))
    assert (preset_file(name).parent.name, preset_file(name).name) == ("presets", f"{name}.toml")
    assert set(read_gallery(name)) == {"position", "task", "purpose", "time", "result"}


def test_names_and_positions_of_presets_are_unique() -> None:
    files = list((ROOT / "training_core").rglob("presets/*.toml"))
    assert len(files) == len(preset_names())
    assert len({read_gallery(name)["position"] for name in preset_names()}) == len(files)


def test_a_copied_preset_file_is_a_config() -> None:
    text = preset_file("tag_mappo").read_text()
    assert "[gallery]" in text
    assert parse_config(read_toml(text)) == load_config("tag_mappo")


def test_a_changed_preset_tree_changes_no_other() -> None:
    read_preset("spread_toy")["team"]["roles"]["agents"]["policy"] = "other"
    assert read_preset("spread_toy")["team"]["roles"]["agents"]["policy"] == "agents"


def test_broken_toml_is_told_with_its_line() -> None:
    with pytest.raises(ConfigError, match="not valid TOML.*line 2"):
        read_toml("[run]\nseed = = 1\n")


def test_toml_carries_a_config_there_and_back() -> None:
    config = load_config("plan_path_duo", {"run.seed": 7, "run.tags": ["a", "b"], "algorithm.clip_low": 0.1})
    assert parse_config(read_toml(to_toml(config))) == config
    short = to_toml(config, only_set=True)
    assert parse_config(read_toml(short)) == config
    assert "betas" not in short


def test_overrides_are_read_as_toml_where_they_are() -> None:
    words = [
        "run.seed=3",
        "--run.name=first try",
        "team.turn_order=['executor', 'planner']",
        "algorithm.leave_one_out=true",
    ]
    assert parse_overrides(words) == {
        "run.seed": 3,
        "run.name": "first try",
        "team.turn_order": ["executor", "planner"],
        "algorithm.leave_one_out": True,
    }
    assert parse_value("1e-3") == 0.001


@pytest.mark.parametrize("word", ["run.seed", "=3"])
def test_a_word_that_is_no_override_is_refused(word: str) -> None:
    with pytest.raises(ConfigError, match="not of the form key=value"):
        parse_overrides([word])


def test_an_override_below_a_value_is_refused() -> None:
    with pytest.raises(ConfigError, match="'seed' is a value, not a section"):
        apply_overrides({"run": {"seed": 1}}, {"run.seed.deep": 2})


def test_overrides_leave_the_tree_they_were_given_alone() -> None:
    tree = read_preset("plan_path_duo")
    apply_overrides(tree, {"run.seed": 99})
    assert "seed" not in tree["run"]


def test_one_line_makes_the_roles_share_a_policy() -> None:
    config = load_config("plan_path_duo", {"team.roles.executor.policy": "planner"})
    assert config.used_policies == config.trained_policies == ("planner",)


def test_a_frozen_role_is_played_and_not_trained() -> None:
    config = load_config("plan_path_duo", {"team.roles.planner.trained": False})
    assert config.used_policies == ("planner", "executor")
    assert config.trained_policies == ("executor",)


@pytest.mark.parametrize("tag", sorted(ALGORITHM_CONFIGS))
def test_toml_of_what_is_set_names_the_algorithm(tag: str) -> None:
    required = {"path": "mine:Algorithm"} if tag == "custom" else {}
    config = load_config("plan_path_duo", {"algorithm": {"type": tag, **required}})
    assert type(config.algorithm) is ALGORITHM_CONFIGS[tag]
    assert parse_config(read_toml(to_toml(config, only_set=True))) == config


def test_a_section_without_a_type_has_the_default_type() -> None:
    tree = apply_overrides(read_preset("plan_path_duo"), {"algorithm": {"clip_low": 0.1}})
    assert parse_config(tree).algorithm == AtGrpo(clip_low=0.1)


def test_an_unknown_algorithm_is_told_with_those_there_are() -> None:
    with pytest.raises(ConfigError) as told:
        load_config("plan_path_duo", {"algorithm.type": "magic"})
    assert "at_grpo" in told.value.fields["algorithm.type"] and "dapo" in told.value.fields["algorithm.type"]


def test_a_misspelt_algorithm_of_networks_is_the_only_error() -> None:
    tree = apply_overrides(read_preset("spread_mappo"), {"algorithm.type": "mapo"})
    with pytest.raises(ConfigError) as raised:
        parse_config(tree)
    assert list(raised.value.fields) == ["algorithm.type"]
    assert "'mappo', 'ippo'" in raised.value.fields["algorithm.type"]


def test_a_part_of_another_type_starts_afresh() -> None:
    tree = {"environment": {"type": "plan_path", "size": 6}, "run": {"seed": 1}}
    changed = apply_overrides(tree, {"environment.rounds": 3, "environment.type": "debate", "run.seed": 2})
    assert changed == {"environment": {"type": "debate", "rounds": 3}, "run": {"seed": 2}}
    assert apply_overrides(tree, {"environment.type": "plan_path"}) == tree


def test_what_is_set_reads_back_with_the_types_of_its_parts() -> None:
    config = load_config("plan_path_duo", {"environment.size": 6})
    brief = set_fields(config)
    assert brief["environment"] == {"type": "plan_path", "size": 6}
    assert "rollout" not in brief and brief["policies"]["planner"]["learner"] == {
        "type": "torch",
        "minibatches": 4,
    }
    assert parse_config(brief) == config and parse_config(read_toml(to_toml(config, only_set=True))) == config


def test_a_section_made_another_kind_drops_what_that_kind_does_not_have() -> None:
    config = load_config(
        "plan_path_duo", {"workflow.type": "episodes", "resources.environments_per_worker": 192}
    )
    assert config.workflow == Episodes()
    with pytest.raises(ConfigError) as told:
        load_config("plan_path_duo", {"workflow.type": "episodes", "workflow.carry": "best"})
    message = told.value.fields["workflow.carry"]
    assert message == "there is no such field; another type of workflow has it"


def test_whole_episodes_need_room_for_all_siblings() -> None:
    with pytest.raises(ConfigError) as told:
        load_config("plan_path_duo", {"workflow.type": "episodes"})
    message = told.value.fields["resources.environments_per_worker"]
    assert "rollout.tasks = 48 x 8 episodes; raise it to 192" in message


def test_a_number_that_follows_from_the_devices_is_a_number_or_auto() -> None:
    path = "policies.planner.learner.micro_batch_tokens"
    for value in ("auto", 700):
        config = load_config("plan_path_duo", {path: value})
        assert config.policies["planner"].learner.micro_batch_tokens == value
        assert parse_config(read_toml(to_toml(config))) == config
    for wrong in (0, -1, 1.5, "many", [1]):
        with pytest.raises(ConfigError) as caught:
            load_config("plan_path_duo", {path: wrong})
        assert list(caught.value.fields) == [path] and '"auto"' in caught.value.fields[path]
