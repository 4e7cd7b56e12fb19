"""The devices and engines of the actor that evaluates during training."""

from pathlib import Path
from typing import Any

import pytest

from tests.workers.running import small_config
from workers.protocol import WorkerSpec
from workers.sizing.placement import on_evaluator


@pytest.mark.parametrize(
    ("gpus", "rollout_gpus", "engine", "expected"),
    [
        (0.0, 1.0, "vllm", "torch"), (1.0, 1.0, "vllm", "torch"), (1.0, 0.5, "vllm", "vllm"), (0.0, 0.0, "vllm", "vllm"),
        (1.0, 1.0, "torch", "torch"),
    ],
)  # fmt: skip
def test_its_policies_share_its_gpus(gpus: float, rollout_gpus: float, engine: str, expected: str) -> None:
    """Of two policies each has half a GPU, for sizes that are "auto" too; that is too little for vLLM on whole ones."""
    overrides: dict[str, Any] = {"evaluation__mode": "beside", "evaluation__gpus": gpus}
    for policy in ("planner", "executor"):
        overrides[f"policies__{policy}__devices__rollout_gpus"] = rollout_gpus
        overrides[f"policies__{policy}__devices__placement"] = "apart"
        overrides[f"policies__{policy}__engine__type"] = engine
    config = on_evaluator(small_config(Path("m"), **overrides))
    for name in config.used_policies:
        assert config.policies[name].devices.rollout_gpus == gpus / 2
        assert config.policies[name].engine.type == expected
    assert WorkerSpec("evaluator-planner", "planner", config, Path(), gpus / 2).gpu_field == "evaluation.gpus"
