"""A cluster of two nodes, simulated on this machine: a run over both, and what becomes of it when one is lost."""

import os
import secrets
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.workers.running import RAY_VARIABLES, curve, events, small_config
from training_core import checkpoints
from training_core.config.files import to_toml
from workers.driver.attempt import FAILED

pytestmark = [pytest.mark.ray, pytest.mark.extended, pytest.mark.timeout(1500)]

MEGABYTE = 1024 * 1024
PATIENCE = 400.0
"""Seconds; nothing is asserted on them."""
NODE: dict[str, Any] = {"object_store_memory": 80 * MEGABYTE, "node_ip_address": "127.0.0.1"}
# Of 2 cores and 1 core: the planner fits the first node only, and the executor the second only.
SHARES = {
    "policies__planner__devices__rollout_cpus": 1.5,
    "policies__executor__devices__rollout_cpus": 1.0,
    "resources__environment_workers": 1,
    "resources__environment_cpus": 0.2,
}


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The first node stands; this process is not connected to it."""
    folder = tempfile.mkdtemp(prefix="two-", dir="/tmp")
    monkeypatch.setenv(
        "RAY_TMPDIR", folder
    )  # where Ray writes the address of the newest cluster, if there is a folder "ray"
    (Path(folder) / "ray").mkdir()
    os.environ |= RAY_VARIABLES | {
        "RAY_health_check_failure_threshold": "5"  # Ray's own: that a node is lost is to be noticed soon
    }
    os.environ.setdefault("RAY_AUTH_TOKEN", secrets.token_hex(32))
    from ray.cluster_utils import Cluster

    made = Cluster(
        initialize_head=True,
        head_node_args={**NODE, "num_cpus": 2, "temp_dir": folder, "include_dashboard": False},
    )
    yield made
    made.shutdown()
    shutil.rmtree(folder, ignore_errors=True)


def driver(
    folder: Path, address: str, number: int, resume_from: Path | None = None
) -> subprocess.Popen[bytes]:
    words = [str(folder / "config.toml"), "--folder", str(folder), "--run", "two", "--home", str(folder)]
    words += ["--attempt", str(number)] + (["--resume-from", str(resume_from)] if resume_from else [])
    with (folder / f"driver-{number}.log").open("wb") as log:
        return subprocess.Popen(
            [sys.executable, "-m", "workers.run", *words],
            env={**os.environ, "RAY_ADDRESS": address, "OMP_NUM_THREADS": "1"},
            stdout=log,
            stderr=subprocess.STDOUT,
        )


def wait_for_checkpoint(folder: Path, process: subprocess.Popen[bytes]) -> Path:
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until:
        place = checkpoints.latest(folder / "checkpoints") if (folder / "checkpoints").is_dir() else None
        if place is not None:
            return place
        assert process.poll() is None, (folder / "driver-1.log").read_text()[-3000:]
        time.sleep(0.2)
    raise AssertionError((folder / "driver-1.log").read_text()[-3000:])


def test_a_run_on_two_nodes_resumes_after_the_loss_of_one(
    cluster: Any, little_model: Path, tmp_path: Path
) -> None:
    config = small_config(little_model, run__iterations=2000, evaluation__every=0, **SHARES)
    (tmp_path / "config.toml").write_text(to_toml(config))
    second = cluster.add_node(**NODE, num_cpus=1)
    process = driver(tmp_path, cluster.address, 1)
    try:
        wait_for_checkpoint(tmp_path, process)
        cluster.remove_node(second, allow_graceful=False)
        assert process.wait(PATIENCE) == FAILED
    finally:
        process.kill()
    (last,) = [event for event in events(tmp_path, "status") if event["state"] == "failed"]
    assert last["facts"]["retry"], "a new attempt may begin at once"
    assert "policy-executor died" in last["message"], "it was on the node that is gone"

    reached = checkpoints.latest(tmp_path / "checkpoints")
    assert reached is not None
    done = int(reached.name.rpartition("-")[2])
    shorter = config.model_copy(update={"run": config.run.model_copy(update={"iterations": done + 2})})
    (tmp_path / "config.toml").write_text(to_toml(shorter))
    cluster.add_node(**NODE, num_cpus=1)
    process = driver(tmp_path, cluster.address, 2, reached)
    try:
        assert process.wait(PATIENCE) == 0, (tmp_path / "driver-2.log").read_text()[-3000:]
    finally:
        process.kill()
    steps = {step for name, step in curve(tmp_path, 2) if name == "train/return"}
    assert steps == {done + 1, done + 2}
