"""engine.type = "auto": which engine, with a stand-in for an installed vLLM."""

from typing import Any

import pytest

from training_core.config import engines as choice
from training_core.config.engines import choose_engine, with_engines
from training_core.config.files import load_config
from training_core.config.run import RunConfig
from training_core.llm.generation.engine_config import Torch, Vllm

APART = {"devices.placement": "apart", "devices.rollout_gpus": 1.0}
LORA = {"adapter.type": "lora", "adapter.alpha": 64}


def config(**fields: Any) -> RunConfig:
    """A config whose planner has engine "auto"."""
    values = {"engine.type": "auto", "engine.max_batch": 32} | fields
    result = load_config(
        "plan_path_duo", {f"policies.planner.{name}": value for name, value in values.items()}
    )
    assert isinstance(result, RunConfig)
    return result


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choice, "find_spec", lambda name: name == "vllm")


@pytest.mark.parametrize("fields", [APART, APART | LORA | {"adapter.rank": 512}])
def test_vllm_where_it_is_installed_and_has_gpus(installed: None, fields: dict[str, Any]) -> None:
    engine, _ = choose_engine(config(**fields).policies["planner"])
    assert isinstance(engine, Vllm) and engine.max_batch == 32


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({}, "CPU"),
        ({"devices.placement": "apart"}, "CPU"),
        ({"devices.rollout_gpus": 1.0}, "colocated"),
        (APART | {"devices.rollout_gpus": 0.5}, "0.5 of a GPU"),
        (APART | LORA | {"adapter.rank": 640}, "rank"),
    ],
)
def test_torch_where_the_placement_does_not_allow_it(
    installed: None, fields: dict[str, Any], why: str
) -> None:
    engine, reason = choose_engine(config(**fields).policies["planner"])
    assert isinstance(engine, Torch) and engine.max_batch == 32 and why in reason


def test_torch_without_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choice, "find_spec", lambda name: None)
    engine, reason = choose_engine(config(**APART).policies["planner"])
    assert isinstance(engine, Torch) and "troupe[gpu]" in reason


def test_only_auto_is_decided(installed: None) -> None:
    """Other policies, and the config that is asked, stay as they are."""
    before = config(**APART)
    after, reasons = with_engines(before)
    assert (after.policies["planner"].engine.type, after.policies["executor"].engine.type) == (
        "vllm",
        "torch",
    )
    assert list(reasons) == ["planner"] and reasons["planner"].startswith("vllm: ")
    assert before.policies["planner"].engine.type == "auto"
    plain = load_config("plan_path_duo")
    assert with_engines(plain) == (plain, {}) and with_engines(plain)[0] is plain
    assert with_engines(load_config("spread_mappo"))[1] == {}


def test_an_auto_that_nothing_has_decided_is_torch() -> None:
    from tests.training_core.llm.toys import TOKENIZER, make_model
    from training_core.llm.generation.base import make_engine
    from training_core.llm.generation.torch_engine import TorchEngine

    assert isinstance(
        make_engine(config(**APART).policies["planner"].engine, make_model(), TOKENIZER), TorchEngine
    )
