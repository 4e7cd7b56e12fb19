"""The form's fields: engines, adapters and learner backends with their own fields, and lists as text."""

import pytest

from training_core.config.files import load_config
from webapp.experiments.fields import Field, config_sections, spell
from webapp.experiments.forms import posted_value

ITEMS = [
    (["a", "b"], "a, b"),
    ([], ""),
    (["</answer>"], "</answer>"),
    (["Walls: north, west.", "east"], '["Walls: north, west.", "east"]'),
    (["\n", ","], r'["\n", ","]'),
    (["[x]"], '["[x]"]'),
    ([" b"], '[" b"]'),
    (["a", ""], '["a", ""]'),
]


def fields(below: str = "", **overrides: object) -> dict[str, Field]:
    """The fields of the demonstration by path, of the section `below`, with these overrides of the planner's policy."""
    changes = {f"policies.planner.{path.replace('__', '.')}": value for path, value in overrides.items()}
    trees = [load_config("plan_path_duo", some).model_dump(mode="json") for some in (changes, {})]
    found = (field for section in config_sections(*trees, {}) for field in section.walk())
    start = f"policies.planner.{below}." if below else ""
    return {field.path.removeprefix(start): field for field in found if field.path.startswith(start)}


def engine(**settings: object) -> dict[str, Field]:
    named = {f"engine__{name}": value for name, value in settings.items()}
    return fields("engine", devices__placement="apart", **named)


def test_every_engine_is_offered_with_settings_of_its_own() -> None:
    torch, openai = engine(), engine(type="openai")
    assert set(torch["type"].choices) == {"torch", "auto", "vllm", "openai"} and torch["type"].reshapes
    assert set(torch) == {"type", "max_batch", "conversation_cache", "static_shapes"}
    assert set(engine(type="vllm")) == {
        "type", "max_batch", "gpu_memory", "context", "eager", "tensor_parallel",
    }  # fmt: skip
    assert openai["server"].choices == ("vllm", "sglang")
    assert openai["urls"].value == ["http://127.0.0.1:8000"]
    assert "Folder" in openai["weights_folder"].help


def test_an_adapter_brings_its_fields() -> None:
    plain, adapted = fields(), fields(adapter__type="lora")
    kind = plain["policies.planner.adapter.type"]
    assert set(kind.choices) == {"none", "lora"} and kind.reshapes and kind.value == "none"
    assert "policies.planner.adapter.rank" not in plain
    rank = adapted["policies.planner.adapter.rank"]
    assert (rank.kind, rank.value, rank.minimum) == ("int", 8, 1) and rank.help
    assert "policies.executor.adapter.rank" not in adapted


def test_a_backend_brings_its_fields_and_keeps_the_common_ones() -> None:
    plain, zero = fields("learner"), fields("learner", learner__type="deepspeed")
    assert set(plain["type"].choices) == {"torch", "deepspeed"}
    assert "zero_stage" not in plain and zero["zero_stage"].maximum == 3
    assert plain["precision"].choices == ("fp32", "bf16", "fp16")
    assert plain.keys() - {"role_gradients"} <= zero.keys()
    assert {"team.alternate", "policies.planner.devices.update_workers"} <= fields().keys()


def field(value: list[str]) -> Field:
    return Field("team.roles.planner.examples", "examples", "", "list", value, value)


@pytest.mark.parametrize(("items", "shown"), ITEMS, ids=str)
def test_a_list_of_texts_survives_the_form(items: list[str], shown: str) -> None:
    assert spell(items) == shown
    assert posted_value(field(items), {"team.roles.planner.examples": shown}) == items


def test_an_array_that_is_none_stays_text_for_the_config_to_refuse() -> None:
    assert posted_value(field([]), {"team.roles.planner.examples": '["a'}) == '["a'


def test_a_number_that_may_be_auto_is_read_as_either() -> None:
    path = "policies.planner.learner.micro_batch_tokens"
    size = fields()[path]
    assert (size.kind, size.shown, size.changed) == ("int", "auto", False)
    assert [posted_value(size, {path: text}) for text in ("auto", " 700 ", "some")] == ["auto", 700, "some"]
