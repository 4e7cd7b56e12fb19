"""The form shows what adapters and learner backends ask for, each with its own fields."""

from training_core.config.files import load_config
from webapp.experiments.fields import Field, config_sections


def fields(**overrides: object) -> dict[str, Field]:
    changes = {path.replace("__", "."): value for path, value in overrides.items()}
    trees = [load_config("plan_path_duo", some).model_dump(mode="json") for some in (changes, {})]
    return {field.path: field for section in config_sections(*trees, {}) for field in section.walk()}


def test_an_adapter_brings_its_fields() -> None:
    plain, adapted = fields(), fields(policies__planner__adapter__type="lora")
    kind = plain["policies.planner.adapter.type"]
    assert set(kind.choices) == {"none", "lora"} and kind.reshapes and kind.value == "none"
    assert "policies.planner.adapter.rank" not in plain
    rank = adapted["policies.planner.adapter.rank"]
    assert (rank.kind, rank.value, rank.minimum) == ("int", 8, 1) and rank.help
    assert "policies.executor.adapter.rank" not in adapted


def test_a_backend_brings_its_fields_and_keeps_the_common_ones() -> None:
    plain, zero = fields(), fields(policies__planner__learner__type="deepspeed")
    assert set(plain["policies.planner.learner.type"].choices) == {"torch", "deepspeed"}
    assert "policies.planner.learner.zero_stage" not in plain
    assert zero["policies.planner.learner.zero_stage"].maximum == 3
    assert plain["policies.planner.learner.precision"].choices == ("fp32", "bf16", "fp16")
    common = {path.rpartition(".")[2] for path in plain if path.startswith("policies.planner.learner.")}
    assert common <= {
        path.rpartition(".")[2] for path in zero if path.startswith("policies.planner.learner.")
    }
    assert {"team.alternate", "policies.planner.devices.update_workers"} <= plain.keys()
