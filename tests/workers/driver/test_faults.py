"""The commonest faults, caused for real in runs of this process: cause and remedy are stated, and no attempt follows."""

import json
import resource
import shutil
import socket
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.workers.running import events, small_config
from tests.workers.wrong_environments import WRONG_ENVIRONMENTS, tree_with
from training_core.checkpoints import write_errors_explained
from training_core.config.files import load_config, parse_config, to_toml
from training_core.devices import cuda_is_visible
from training_core.errors import ConfigError
from training_core.sandbox import run
from workers.actors.policy_workers import RolloutWorker
from workers.driver.attempt import FAILED, run_attempt
from workers.driver.local_backends import LocalBackend
from workers.protocol import Attempt, Updated, WorkerSpec

REWARDS = "tests.training_core.llm.rewards.reward_functions"


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


def test_a_model_without_a_chat_template(little_model: Path, tmp_path: Path) -> None:
    base = tmp_path / "base"
    shutil.copytree(little_model, base)
    (base / "chat_template.jinja").unlink(missing_ok=True)
    settings = json.loads((base / "tokenizer_config.json").read_text())
    settings.pop("chat_template", None)
    (base / "tokenizer_config.json").write_text(json.dumps(settings))
    cause, remedy = failed(small_config(base), tmp_path / "run")
    assert cause == f"The model '{base}' has no chat template."
    assert remedy.startswith("Use an instruction-tuned model")


def test_an_unreachable_hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import huggingface_hub.constants

    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    cause, remedy = failed(small_config(Path("nobody/no-model")), tmp_path / "run")
    assert (
        cause
        == "The model 'nobody/no-model' is neither a folder nor downloaded, and the hub cannot be reached."
    )
    assert remedy.startswith("Connect the machine of the workers to huggingface.co")


def test_too_little_host_memory(little_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def update(self: LocalBackend, iteration: int) -> Updated:
        raise AssertionError(bytearray(1 << 62))

    monkeypatch.setattr(LocalBackend, "update", update)
    cause, remedy = failed(small_config(little_model, evaluation__every=0), tmp_path / "run")
    assert cause == "The machine is out of memory: MemoryError."
    assert remedy.startswith("Lower resources.environment_workers")


def test_too_little_device_memory(
    little_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a GPU, torch's own error is raised where weights go to the device."""
    import torch

    def to(self: torch.nn.Module, *args: Any, **options: Any) -> torch.nn.Module:
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has 79 GiB")

    monkeypatch.setattr(torch.nn.Module, "to", to)
    cause, remedy = failed(small_config(little_model), tmp_path / "run")
    assert "out of memory" in cause
    assert remedy.startswith("Lower policies.*.learner.micro_batch_tokens")


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


def test_a_full_disk(little_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The device that is always full takes the place of the checkpoint's file of weights."""
    from training_core.llm.learning import policy_checkpoint

    def save_policy(folder: Path, *_: Any) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "model.safetensors").symlink_to("/dev/full")
        with (
            write_errors_explained(f"the checkpoint {folder}"),
            (folder / "model.safetensors").open("wb") as file,
        ):
            file.write(b"x")

    monkeypatch.setattr(policy_checkpoint, "save_policy", save_policy)
    config = small_config(little_model, evaluation__every=0, run__iterations=1)
    cause, remedy = failed(config, tmp_path / "run")
    assert "No space left on device" in cause
    assert remedy.startswith("Free space on this disk")


@pytest.mark.parametrize(("path", "args", "cause", "remedy"), WRONG_ENVIRONMENTS)
def test_an_environment_that_cannot_be_constructed(
    little_model: Path, tmp_path: Path, path: str, args: dict[str, Any], cause: str, remedy: str
) -> None:
    tree = tree_with(path, args, little_model)
    found = failed(parse_config(tree), tmp_path / "run")
    assert cause in found[0]
    assert found[1].startswith(remedy)


def test_a_reward_function_that_raises(little_model: Path, tmp_path: Path) -> None:
    file = tmp_path / "lines.jsonl"
    file.write_text("\n".join(json.dumps({"prompt": f"goal {n} east", "label": "x"}) for n in range(20)))
    overrides = {
        "environment.type": "dataset",
        "environment.path": str(file),
        "environment.reward": {"type": "custom", "path": f"{REWARDS}:raises", "retries": 0},
        "team.roles": {"solver": {"policy": "planner"}},
        "policies": {"planner": {"model": str(little_model)}},
        "environment.eval_share": 0.4,
        "rollout.tasks": 4,
        "rollout.group_size": 2,
        "run.failure_patience": 1,
        "evaluation.every": 0,
        "resources.environment_workers": 1,
    }
    cause, remedy = failed(load_config("plan_path_duo", overrides), tmp_path / "run")
    assert cause.startswith("All episodes failed in 1 iterations in a row")
    assert f"reward function {REWARDS}:raises: " in cause
    assert remedy.startswith("Correct the agent or the environment")


def test_an_absent_sandbox(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, little_model: Path) -> None:
    for cached in (run.check_sandbox, run._run, run._sandbox):  # earlier tests may have started one
        cached.cache_clear()
    monkeypatch.setenv("PATH", str(tmp_path))
    overrides = {f"policies.{policy}.model": str(little_model) for policy in ("tester", "coder")}
    cause, remedy = failed(load_config("coding", overrides), tmp_path / "run")
    assert cause == "No sandbox is available for agents' code."
    assert remedy.startswith("Install bubblewrap and libseccomp")


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
