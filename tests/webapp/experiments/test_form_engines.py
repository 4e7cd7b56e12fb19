"""The form draws a policy's engine from the schema."""

from training_core.config.files import load_config
from webapp.experiments.fields import Field, config_sections

PRESET = "plan_path_duo"
START = "policies.planner.engine."


def engine_fields(**settings: str) -> dict[str, Field]:
    overrides = {f"{START}{name}": value for name, value in settings.items()}
    preset = load_config(PRESET).model_dump(mode="json")
    tree = load_config(PRESET, {"policies.planner.devices.placement": "apart"} | overrides).model_dump(
        mode="json"
    )
    every = (field for section in config_sections(tree, preset, {}) for field in section.walk())
    return {field.path.removeprefix(START): field for field in every if field.path.startswith(START)}


def test_every_engine_is_offered_with_settings_of_its_own() -> None:
    torch = engine_fields()
    assert set(torch["type"].choices) == {"torch", "vllm", "openai"} and torch["type"].reshapes
    assert set(torch) == {"type", "max_batch", "conversation_cache", "static_shapes"}
    assert set(engine_fields(type="vllm")) == {
        "type",
        "max_batch",
        "gpu_memory",
        "context",
        "eager",
        "tensor_parallel",
    }
    openai = engine_fields(type="openai")
    assert openai["server"].choices == ("vllm", "sglang")
    assert openai["urls"].value == ["http://127.0.0.1:8000"]
    assert "Folder" in openai["weights_folder"].help
