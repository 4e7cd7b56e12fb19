"""Runs spread over actors: the same numbers as in one process, whatever the workers; what dies is replaced."""

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load_file

from tests.workers.running import conversation, curve, small_config
from training_core.config.files import load_config
from workers.driver.attempt import run_attempt
from workers.driver.local_backends import LocalBackend
from workers.protocol import Attempt, Collected, StopChecks, StoppedBeforeStart, WorkerLost

pytestmark = pytest.mark.ray

APART = {"policies__planner__devices__placement": "apart", "policies__executor__devices__placement": "apart"}
TOGETHER = {
    "policies__planner__devices__placement": "apart",
    "policies__planner__devices__update_workers": 2,
    "resources__environment_workers": 1,
}


def zero(stage: int) -> dict[str, Any]:
    """The planner learns by DeepSpeed."""
    path = "policies__planner__learner__"
    return {path + "type": "deepspeed", path + "zero_stage": stage}


LEARNERS: dict[str, dict[str, Any]] = {
    "torch-2": TOGETHER,
    "deepspeed-zero2-2": {**TOGETHER, **zero(2)},
    "deepspeed-zero3-2": {**TOGETHER, **zero(3)},
}
SHAPES: dict[str, dict[str, Any]] = {
    "colocated": {"resources__environment_workers": 1},
    "many-environments": {"resources__environment_workers": 3, "resources__environments_per_worker": 2},
    "apart": {**APART, "resources__environment_workers": 2, "resources__environments_per_worker": 3},
}


@pytest.fixture(scope="module")
def reference(little_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The run in one process, in the test's process."""
    folder = tmp_path_factory.mktemp("reference")
    assert run_attempt(Attempt(small_config(little_model), "r", 1, folder, folder.parent), local=True) == 0
    return folder


@contextmanager
def crew_of(config: Any, name: str, folder: Path) -> Iterator[Any]:
    """A crew of actors, started; ended afterwards."""
    from workers.driver.ray_backend import RayBackend

    backend = RayBackend(
        Attempt(config, name, 1, folder, folder), StopChecks(lambda: None, lambda: None), lambda text: None
    )
    try:
        backend.start(None)
        yield backend
    finally:
        backend.close()


@pytest.mark.parametrize(
    "shape",
    [shape if shape == "apart" else pytest.param(shape, marks=pytest.mark.extended) for shape in SHAPES],
)
def test_placement_does_not_change_results(
    shape: str, ray_cluster: None, reference: Path, little_model: Path, tmp_path: Path
) -> None:
    config = small_config(little_model, **SHAPES[shape])
    assert run_attempt(Attempt(config, f"shape-{shape}", 1, tmp_path, tmp_path), local=False) == 0
    assert conversation(tmp_path) == conversation(reference)
    here, there = curve(tmp_path), curve(reference)
    assert here.keys() == there.keys()
    assert here == pytest.approx(there, rel=1e-4, abs=1e-6)


@pytest.mark.extended
@pytest.mark.parametrize("shape", LEARNERS)
def test_the_number_of_update_workers_does_not_change_the_loss(
    shape: str, ray_cluster: None, reference: Path, little_model: Path, tmp_path: Path
) -> None:
    """Rows are packed differently, so the last bits differ, and later also the samples; the first ones are equal."""
    config = small_config(little_model, **LEARNERS[shape])
    assert run_attempt(Attempt(config, f"learner-{shape}", 1, tmp_path, tmp_path), local=False) == 0
    here, there = curve(tmp_path), curve(reference)
    for policy in ("planner", "executor"):
        for name in ("loss", "kl", "entropy", "grad_norm", "tokens", "ratio_mean", "mismatch_mean"):
            place = (f"policy/{policy}/{name}", 1)
            assert here[place] == pytest.approx(there[place], rel=5e-3, abs=1e-5), place
    assert here["eval/return", 1] == pytest.approx(there["eval/return", 1], abs=0.05)
    for policy in ("planner", "executor"):
        folder = tmp_path / "checkpoints" / "iteration-000002" / policy
        one, other = (
            load_file(root / "checkpoints" / "iteration-000002" / policy / "model.safetensors")
            for root in (tmp_path, reference)
        )
        assert one.keys() == other.keys() and (folder / "optimizer.safetensors").is_file()
        assert all(one[name].shape == other[name].shape for name in one)


def kill(name: str) -> None:
    """End an actor's process as the kernel would."""
    import ray

    os.kill(ray.get(ray.get_actor(name).ping.remote()), signal.SIGKILL)


def seen(collected: Collected) -> list[Any]:
    """Texts and rewards."""
    return [
        [[(c["token_ids"], c["reward"]) for c in turn["candidates"]] for turn in document["turns"]]
        for document in collected.transcripts
    ]


def two_iterations(backend: Any, between: Callable[[], None]) -> list[Any]:
    """Collect, learn, (something happens,) collect."""
    first = backend.collect(1)
    backend.update(1)
    backend.publish(1)
    between()
    return [seen(first), seen(backend.collect(2))]


def test_dead_rollout_and_environment_workers_are_replaced(
    ray_cluster: None, little_model: Path, tmp_path: Path
) -> None:
    """Also when the first to ask them does not want answers: figures of the machine, a frozen policy's checkpoint."""
    frozen = {"team__roles__executor__trained": False}
    config = small_config(little_model, **APART, **frozen, resources__environment_workers=2)
    stop_checks = StopChecks(lambda: None, lambda: None)
    calm = LocalBackend(
        Attempt(config, "calm", 1, tmp_path, tmp_path), config, stop_checks, lambda done, text: None
    )
    calm.start(None)
    undisturbed = two_iterations(calm, lambda: None)
    calm.close()

    def disaster() -> None:
        for actor_slot in ("rollout-planner-0", "rollout-executor-0", "environment-1"):
            kill(f"stormy-1-{actor_slot}")
        backend.system()
        backend.save(tmp_path / "saved")

    with crew_of(config, "stormy", tmp_path) as backend:
        assert two_iterations(backend, disaster) == undisturbed


@pytest.mark.extended
@pytest.mark.parametrize(("workers", "dead"), [(TOGETHER, "update-planner-1"), (APART, "update-executor")])
def test_a_dead_update_worker_ends_the_attempt_by_name(
    workers: dict[str, Any], dead: str, ray_cluster: None, little_model: Path, tmp_path: Path
) -> None:
    """One of several of a policy, and the only one."""
    with crew_of(small_config(little_model, **workers), f"torn-{dead}", tmp_path) as backend:
        backend.collect(1)
        kill(f"torn-{dead}-1-{dead}")
        with pytest.raises(WorkerLost, match=rf"{dead} died.*last checkpoint"):
            backend.update(1)


@pytest.mark.extended
def test_a_waiting_run_reports_missing_devices_and_can_be_stopped(
    ray_cluster: None, little_model: Path, tmp_path: Path
) -> None:
    from workers.driver.ray_backend import RayBackend

    said: list[str] = []

    def stop_check() -> None:
        if said:
            raise StoppedBeforeStart("stop")

    config = small_config(little_model, policies__planner__devices__rollout_cpus=100)
    backend = RayBackend(
        Attempt(config, "greedy", 1, tmp_path, tmp_path), StopChecks(stop_check, stop_check), said.append
    )
    with pytest.raises(StoppedBeforeStart):
        backend.start(None)
    backend.close()
    assert "waiting for 100.8 CPU cores" in said[0]
    assert "of 4 CPU cores" in said[0]
    assert "the cluster is too small" in said[0]


@pytest.mark.extended
def test_a_fork_continues_with_another_runs_weights(
    ray_cluster: None, little_model: Path, tmp_path: Path
) -> None:
    """Trained and frozen policies with separate rollout processes."""
    folder, fork = tmp_path / "parent", tmp_path / "fork"
    parent = Attempt(small_config(little_model, checkpoint__keep=5), "parent", 1, folder, tmp_path)
    assert run_attempt(parent, local=True) == 0
    frozen = {"team__roles__planner__trained": False}
    config = small_config(little_model, **APART, **frozen, resources__environment_workers=2)
    origin = folder / "checkpoints" / "iteration-000001"
    assert run_attempt(Attempt(config, "fork", 1, fork, tmp_path, fork_from=origin), local=False) == 0
    here, there = curve(fork), curve(folder)
    for name in ("eval/success", "eval/return", "eval_sampled/return"):
        assert here[name, 1] == there[name, 1], "its first evaluation is the checkpoint's"
    assert ("eval/return", 2) in here


@pytest.mark.extended
def test_small_networks_learn_the_same_in_an_actor(ray_cluster: None, tmp_path: Path) -> None:
    small = {
        "run.iterations": 2,
        "rollout.environments": 4,
        "rollout.steps": 25,
        "evaluation.every": 1,
        "evaluation.episodes": 4,
    }
    config = load_config("spread_mappo", small)
    for name, local in (("here", True), ("there", False)):
        folder = tmp_path / name
        assert run_attempt(Attempt(config, f"marl-{name}", 1, folder, tmp_path), local=local) == 0
    assert curve(tmp_path / "there") == curve(tmp_path / "here")
    assert conversation(tmp_path / "there") == conversation(tmp_path / "here")
