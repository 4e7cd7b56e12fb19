"""Runs whose roles have an adapter each over one base model."""

from pathlib import Path

import pytest
import torch

from tests.workers.running import curve, small_config
from training_core import checkpoints
from training_core.config.files import to_toml
from training_core.config.run import RunConfig
from training_core.llm.models.lora import ADAPTER_WEIGHTS, has_adapter
from workers.actors.policy_workers import RolloutWorker, UpdateWorker
from workers.driver.attempt import run_attempt
from workers.driver.local_backends import LocalBackend
from workers.job import main
from workers.protocol import Attempt, StopChecks, WorkerSpec
from workers.storage.folders import JobFolder

LORA = {
    f"policies__{policy}__{path}": value
    for policy in ("planner", "executor")
    for path, value in {"adapter__type": "lora", "adapter__rank": 4, "learner__learning_rate": 0.01}.items()
}


def config_of(model: Path, **overrides: object) -> RunConfig:
    return small_config(model, **{**LORA, "run__iterations": 4, "checkpoint__keep": 9, **overrides})


def run(folder: Path, config: RunConfig, number: int = 1, **origin: Path) -> int:
    return run_attempt(Attempt(config, "r", number, folder, folder.parent, **origin), local=True)


def latest(folder: Path) -> Path:
    place = checkpoints.latest(folder / "checkpoints")
    assert place is not None
    return place


@pytest.fixture(scope="module")
def whole(little_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of four iterations."""
    folder = tmp_path_factory.mktemp("whole")
    assert run(folder, config_of(little_model)) == 0
    return folder


def test_roles_share_the_tensors_of_one_base_model(little_model: Path, tmp_path: Path) -> None:
    attempt = Attempt(config_of(little_model), "r", 1, tmp_path, tmp_path)
    backend = LocalBackend(
        attempt, config_of(little_model), StopChecks(lambda: None, lambda: None), lambda done, text: None
    )
    backend.start(None)
    one, other = (backend._proxies[policy].engine.model for policy in ("planner", "executor"))
    assert has_adapter(one) and has_adapter(other)
    bases = [
        {weight.data_ptr() for weight in model.parameters() if not weight.requires_grad}
        for model in (one, other)
    ]
    adapters = [
        {weight.data_ptr() for weight in model.parameters() if weight.requires_grad} for model in (one, other)
    ]
    assert bases[0] == bases[1] and not adapters[0] & adapters[1]
    drawn = [
        next(weight for name, weight in model.named_parameters() if ".lora_A." in name)
        for model in (one, other)
    ]
    assert not torch.equal(*drawn), "each begins from noise of its own"


def test_a_checkpoint_is_evaluated_as_the_run_evaluated_it(
    whole: Path, little_model: Path, tmp_path: Path
) -> None:
    config = config_of(little_model)
    job = JobFolder(tmp_path / "job")
    job.open(
        to_toml(config),
        {"kind": "evaluate", "parameters": {"episodes": 8}, "checkpoint": str(latest(whole)), "other": ""},
    )
    assert main([str(tmp_path / "job"), "--home", str(tmp_path)]) == 0
    result = job.read("result") or {}
    assert result["return"] == pytest.approx(curve(whole)["eval/return", 4])


@pytest.mark.extended
def test_policies_take_turns(little_model: Path, tmp_path: Path) -> None:
    config = config_of(little_model, team__alternate=1)
    assert [config.learning_policies(iteration) for iteration in (1, 2, 3)] == [
        ("planner",), ("executor",), ("planner",),
    ]  # fmt: skip
    twice = config_of(little_model, team__alternate=2)
    assert [twice.learning_policies(iteration)[0] for iteration in (1, 2, 3, 4, 5)] == [
        "planner", "planner", "executor", "executor", "planner",
    ]  # fmt: skip
    assert run(tmp_path, config) == 0
    learnt = {place for place in curve(tmp_path) if place[0].endswith("/loss")}
    assert learnt == {
        ("policy/planner/loss", 1), ("policy/executor/loss", 2),
        ("policy/planner/loss", 3), ("policy/executor/loss", 4),
    }  # fmt: skip

    def weights(iteration: int, policy: str) -> bytes:
        folder = tmp_path / "checkpoints" / f"iteration-{iteration:06d}" / policy
        return (folder / ADAPTER_WEIGHTS).read_bytes()

    assert weights(1, "executor") != weights(2, "executor") == weights(3, "executor")
    assert weights(1, "planner") == weights(2, "planner") != weights(3, "planner")


def test_what_is_published_is_the_adapter_alone(little_model: Path, tmp_path: Path) -> None:
    """An update worker and a rollout worker, each with its own model."""
    config = config_of(little_model)
    spec = WorkerSpec("w", "planner", config, tmp_path)
    update, rollout = UpdateWorker(spec), RolloutWorker(spec)
    update.start(None)
    rollout.start(None)
    with torch.no_grad():
        for weight in update.learner.optimiser.weights:
            weight.add_(0.1)
    packed = update.weights(1)
    assert packed.arrays and all(".lora_" in name for name in packed.arrays)
    rollout.load_weights(packed, 1)
    assert rollout.engine.version == 1
    for name, weight in rollout.engine.model.state_dict().items():
        assert torch.equal(weight, update.learner.model.state_dict()[name]), name
