"""The smallest change that makes a run fit: the suggestion, applied, fits; anything milder does not."""

import math
from pathlib import Path
from typing import Any

import pytest

from training_core.config.files import load_config
from workers.sizing.changes import KINDS_OF_CHANGES, change_text, smallest_change
from workers.sizing.estimates import NodeMemory, estimate, memory_shortages

GB = 10**9
MODEL = {f"policies.{name}.model": "Qwen/Qwen3-1.7B" for name in ("planner", "executor")}


@pytest.fixture(autouse=True)
def no_downloads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))


def fits(home: Path, preset: str, overrides: dict[str, Any], node: NodeMemory) -> bool:
    return not memory_shortages(estimate(load_config(preset, overrides), home, card=node.gpu), [node])


def policies(**fields: Any) -> dict[str, Any]:
    return {
        f"policies.{name}.{path.replace('__', '.')}": value
        for name in ("planner", "executor")
        for path, value in fields.items()
    }


@pytest.mark.parametrize("card", [24, 40, 48, 64, 80])
@pytest.mark.parametrize("preset", ["qwen3_plan_path", "qwen3_math", "qwen3_coding", "qwen3_plan_path_lora"])
def test_the_suggestion_fits(preset: str, card: int, tmp_path: Path) -> None:
    node = NodeMemory(1000 * GB, card * GB)
    change = smallest_change(load_config(preset), tmp_path, [node], 2.0)
    assert bool(change) != fits(tmp_path, preset, {}, node)
    assert fits(tmp_path, preset, change, node), change_text(change)


def test_every_part_of_the_suggestion_is_needed(tmp_path: Path) -> None:
    """Without one of its fields, or with twice the tokens of a micro-batch or the sequences, the run does not fit."""
    node = NodeMemory(1000 * GB, 30 * GB)
    preset, wider = (
        "qwen3_plan_path_shared",
        {"learner.precision": "fp32", "learner.activation_checkpointing": False},
    )
    (policy,) = load_config(preset).models
    given = {f"policies.{policy}.{path}": value for path, value in wider.items()}
    change = smallest_change(load_config(preset, given), tmp_path, [node], 1.0)
    assert len(change) > 1 and fits(tmp_path, preset, given | change, node)
    for path, value in change.items():
        rest = {other: setting for other, setting in change.items() if other != path}
        assert not fits(tmp_path, preset, given | rest, node), path
        if isinstance(value, int) and value > 1:
            assert not fits(tmp_path, preset, given | rest | {path: 2 * value}, node), path


def test_less_tokens_come_before_an_adapter(tmp_path: Path) -> None:
    """A change that keeps what is trained is preferred: half of the card has 40 GB."""
    wide = policies(learner__micro_batch_tokens=65_536, learner__activation_checkpointing=False)
    change = smallest_change(
        load_config("qwen3_plan_path", wide), tmp_path, [NodeMemory(1000 * GB, 80 * GB)], 1.0
    )
    assert {path.rsplit(".", 1)[-1] for path in change} == {"micro_batch_tokens"}
    assert {path.split(".")[1] for path in change} == {"planner", "executor"}


def test_only_the_policy_that_does_not_fit_is_changed(tmp_path: Path) -> None:
    wide = {
        "policies.planner.learner.micro_batch_tokens": 65_536,
        "policies.planner.learner.activation_checkpointing": False,
    }
    node = NodeMemory(1000 * GB, 80 * GB)
    change = smallest_change(load_config("qwen3_plan_path", wide), tmp_path, [node], 1.0)
    assert {path.split(".")[1] for path in change} == {"planner"}


def test_more_cards_only_where_there_are_more(tmp_path: Path) -> None:
    """All weights of 4 billion parameters need 16 bytes each: more than half a card, less than a whole one of 80 GB."""
    config = load_config("qwen3_plan_path", policies(model="Qwen/Qwen3-4B", adapter__type="none"))
    node = NodeMemory(1000 * GB, 96 * GB)
    one = smallest_change(config, tmp_path, [node], 1.0)
    assert set(one.values()) == {"lora"}
    changes = sorted(KINDS_OF_CHANGES, key=lambda kind: "cards" not in kind.__name__)
    cards = {f"policies.{name}.devices.rollout_gpus": 1.0 for name in ("planner", "executor")}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("workers.sizing.changes.KINDS_OF_CHANGES", changes)
        assert smallest_change(config, tmp_path, [node], 2.0) == cards
        assert smallest_change(config, tmp_path, [node], math.inf) == cards
        assert smallest_change(config, tmp_path, [node], 1.0) == one


def test_main_memory_is_that_of_all_policies(tmp_path: Path) -> None:
    node = NodeMemory(60 * GB, 0)
    change = smallest_change(load_config("plan_path_duo", MODEL), tmp_path, [node])
    assert change and not fits(tmp_path, "plan_path_duo", MODEL, node)
    assert fits(tmp_path, "plan_path_duo", MODEL | change, node)


def test_no_change_is_suggested_where_none_helps(tmp_path: Path) -> None:
    assert (
        smallest_change(load_config("qwen3_plan_path"), tmp_path, [NodeMemory(1000 * GB, 2 * GB)], 1.0) == {}
    )
    assert change_text({"a.b": 512, "c": True, "d": "lora"}) == "a.b=512 c=true d=lora"
