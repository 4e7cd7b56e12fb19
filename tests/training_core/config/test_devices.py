"""Devices that fit the engine and the way of the weights, and combinations that are refused."""

from typing import Any

import pytest

from training_core.config.files import load_config
from training_core.errors import ConfigError

APART = {"devices.placement": "apart"}
COLLECTIVE = {**APART, "devices.weight_transfer": "collective"}
VLLM = {**APART, "engine.type": "vllm"}


def planner(fields: dict[str, Any]) -> Any:
    """The planner's part of a config with these fields."""
    config: Any = load_config(
        "plan_path_duo", {f"policies.planner.{name}": value for name, value in fields.items()}
    )
    return config.policies["planner"]


@pytest.mark.parametrize(
    "fields",
    [
        COLLECTIVE,
        {**COLLECTIVE, "devices.rollout_gpus": 1, "devices.update_gpus": 1},
        {**VLLM, "devices.rollout_gpus": 1},
        {**VLLM, "devices.rollout_gpus": 2, "engine.tensor_parallel": 2},
        {**APART, "devices.rollout_gpus": 0.5},
    ],
)
def test_devices_that_fit_are_accepted(fields: dict[str, Any]) -> None:
    assert planner(fields).devices.placement == "apart"


def test_a_colocated_policy_may_generate_with_vllm() -> None:
    assert planner({"engine.type": "vllm", "devices.rollout_gpus": 1}).devices.placement == "colocated"


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        (
            {"devices.weight_transfer": "collective"},
            'colocated weights are not transferred; set placement = "apart"',
        ),
        (
            {**COLLECTIVE, "devices.rollout_gpus": 1},
            "set rollout_gpus and update_gpus both above 0 or both to 0",
        ),
        (
            {**COLLECTIVE, "devices.update_gpus": 1},
            "set rollout_gpus and update_gpus both above 0 or both to 0",
        ),
        (
            {**COLLECTIVE, "devices.rollout_gpus": 0.5, "devices.update_gpus": 0.5},
            "set rollout_gpus and update_gpus to at least 1",
        ),
        (
            {
                **COLLECTIVE,
                "engine.type": "openai",
                "engine.urls": ["http://127.0.0.1:8000"],
                "engine.weights_folder": "/w",
            },
            'openai reads weights from a folder; use "object_store"',
        ),
        (
            {**APART, "devices.rollout_gpus": 2},
            "uses 1 GPU, but 2 are requested; set it to 1, or engine.type",
        ),
        (
            {**VLLM, "devices.rollout_gpus": 2},
            "set engine.tensor_parallel to that number, or rollout_gpus to 1",
        ),
        ({**VLLM, "engine.tensor_parallel": 2}, "uses 2 GPUs, but 0 are requested"),
        (
            {"engine.type": "vllm", "devices.rollout_gpus": 2, "engine.tensor_parallel": 2},
            "a colocated policy uses one GPU, but 2 are requested",
        ),
        (
            {**APART, "devices.update_gpus": 4},
            "uses one GPU, but 4 are requested; set update_gpus = 1, and update_workers",
        ),
    ],
)
def test_devices_that_cannot_work_are_refused(fields: dict[str, Any], error: str) -> None:
    with pytest.raises(ConfigError, match=error):
        planner(fields)
