"""The commonest faults, caused for real in runs of this process: cause and remedy are stated, and whether an attempt follows."""

import resource
import socket
import subprocess
import sys
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.workers.running import events, small_config
from training_core.config.files import load_config, to_toml
from training_core.devices import cuda_is_visible
from training_core.errors import ConfigError
from workers.actors.policy_workers import RolloutWorker
from workers.driver.attempt import FAILED, run_attempt
from workers.driver.local_backends import LocalBackend
from workers.protocol import Attempt, Updated, WorkerLost, WorkerSpec


@pytest.mark.parametrize(
    ("error", "facts"), [(WorkerLost("update-executor died"), {"retry": True}), (ValueError("a bug"), {})]
)
def test_only_a_lost_worker_asks_for_another_attempt(
    error: Exception,
    facts: dict[str, bool],
    little_model: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(self: LocalBackend, iteration: int) -> Updated:
        raise error

    monkeypatch.setattr(LocalBackend, "update", fail)
    folder = tmp_path / "run"
    assert run_attempt(Attempt(small_config(little_model), "local", 1, folder, folder), local=True) == FAILED
    last = events(folder, "status")[-1]
    assert (last["state"], last["facts"]) == ("failed", facts)
    assert str(error) in last["message"]


def failed(config: Any, folder: Path) -> tuple[str, str]:
    """Cause and remedy of a run that fails; it requests no other attempt."""
    assert run_attempt(Attempt(config, "r", 1, folder, folder.parent), local=True) == FAILED
    return stated(folder)


def stated(folder: Path) -> tuple[str, str]:
    last = events(folder, "status")[-1]
    assert (last["state"], last["facts"]) == ("failed", {})
    return last["message"], last["remedy"]


def test_a_missing_model_folder(tmp_path: Path) -> None:
    cause, remedy = failed(small_config(tmp_path / "no-model-here"), tmp_path / "run")
    assert cause == f"There is no model folder '{tmp_path}/no-model-here' on the machine of the workers."
    assert remedy.startswith("Set policies.*.model to a folder with config.json")


without_gpu = pytest.mark.skipif(cuda_is_visible(), reason="this machine has a GPU")


@without_gpu
def test_an_absent_gpu_is_refused_before_models_are_read(tmp_path: Path) -> None:
    gpu = {"policies__planner__devices__rollout_gpus": 1.0}
    cause, remedy = failed(small_config(tmp_path / "no-model-here", **gpu), tmp_path / "run")
    field = "policies.planner.devices.rollout_gpus"
    assert cause == f"{field}: 1 GPU is requested, but this machine has no CUDA device."
    assert remedy == "Set it to 0, or use a machine with an NVIDIA GPU and its driver."
    cause, remedy = failed(load_config("spread_mappo", {"resources.gpus": 1.0}), tmp_path / "networks")
    assert cause == "resources.gpus: 1 GPU is requested, but this machine has no CUDA device."


@without_gpu
@pytest.mark.parametrize("spec_name", ["rollout-planner-0", "update-planner"])
def test_a_worker_without_its_gpu_does_not_use_the_cpu(tmp_path: Path, spec_name: str) -> None:
    """On a cluster that pretends GPUs, or whose driver is broken."""
    spec = WorkerSpec(spec_name, "planner", small_config(tmp_path / "nope"), tmp_path, gpus=1.0)
    kind = spec_name.partition("-")[0]
    with pytest.raises(ConfigError, match=f"policies.planner.devices.{kind}_gpus: 1 GPU is requested"):
        RolloutWorker(spec).start(None)


def test_a_taken_port(little_model: Path, tmp_path: Path) -> None:
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        port = holder.getsockname()[1]
        workflow = {"type": "agent", "port": port}
        cause, remedy = failed(small_config(little_model, workflow=workflow), tmp_path / "run")
    assert cause == f"workflow.port: cannot listen on port {port}: Address already in use."
    assert remedy == "Choose another port, or 0 for a free one."


@pytest.mark.extended
def test_a_checkpoint_beyond_the_file_size_limit(little_model: Path, tmp_path: Path) -> None:
    """Only a child process can have the limit."""
    size = (little_model / "model.safetensors").stat().st_size // 2
    file, folder = tmp_path / "config.toml", tmp_path / "run"
    short = {"rollout__group_size": 2, "reporting__episodes_per_iteration": 0}
    file.write_text(to_toml(small_config(little_model, evaluation__every=0, run__iterations=1, **short)))
    options = ["--local", "--folder", str(folder), "--home", str(tmp_path)]
    done = subprocess.run(
        [sys.executable, "-m", "workers.run", *options, str(file)],
        preexec_fn=partial(resource.setrlimit, resource.RLIMIT_FSIZE, (size, size)),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == FAILED, done.stderr
    cause, remedy = stated(folder)
    assert cause.startswith("Cannot write the checkpoint ")
    assert remedy.startswith("Raise the limit (ulimit -f unlimited)")
    assert f"failed: {cause} Remedy: {remedy}" in done.stdout


@pytest.mark.parametrize("is_there", [True, False])
def test_an_actor_that_died_with_ray_is_not_told_as_killed(
    is_there: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A lead actor whose Ray answers no longer ended with it."""
    from ray.exceptions import ActorDiedError

    from workers.driver import ray_backend

    with socket.create_server(("127.0.0.1", 0)) as head:
        address = SimpleNamespace(gcs_address=f"127.0.0.1:{head.getsockname()[1]}")
        if not is_there:
            head.close()
        monkeypatch.setattr(ray_backend.ray, "get_runtime_context", lambda: address)
        monkeypatch.setattr(ray_backend, "RAY_ENDS_SECONDS", 0.1)
        told = str(ray_backend._lost("the process that leads the run", ActorDiedError()))
    assert ("Ray was stopped" in told) != is_there
    assert told.startswith("the process that leads the run died: ") == is_there
