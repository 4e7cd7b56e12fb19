"""Runs of small networks whose environments have processes of their own: the same curve, and failures that name the environment."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.workers.running import curve
from training_core.config.files import load_config
from training_core.config.marl.environments import PettingZoo, SimpleTag
from training_core.config.marl.run import MarlConfig
from training_core.errors import EnvironmentFailure
from training_core.marl.environments.registry import make_environments
from workers.actors.marl_env_worker import MarlEnvWorker
from workers.loops.attempt import run_attempt
from workers.loops.records import Attempt, WorkerLost

pytestmark = pytest.mark.ray


def run(folder: Path, workers: int) -> dict[Any, Any]:
    """The learning curve of a short run, less what a clock says."""
    config = load_config(
        "spread_toy",
        {
            "environment": {"type": "simple_foraging_pz", "max_cycles": 12},
            "run.iterations": 2,
            "rollout.environments": 5,
            "rollout.steps": 16,
            "evaluation.episodes": 3,
            "resources.environment_workers": workers,
            "resources.environment_cpus": 0.1,
            "resources.cpus": 0.1,
        },
    )
    assert isinstance(config, MarlConfig)
    assert run_attempt(Attempt(config, f"r{workers}", 1, folder, folder.parent), local=False) == 0
    return curve(folder)


def test_the_curve_does_not_depend_on_environment_workers(ray_cluster: None, tmp_path: Path) -> None:
    alone, shared = run(tmp_path / "alone", 0), run(tmp_path / "shared", 2)
    assert {key for key, _ in alone} >= {"eval/return", "train/return", "policy/agents/value_loss"}
    assert shared == alone


def test_shares_step_in_their_workers_and_failures_name_the_environment(ray_cluster: None) -> None:
    import ray  # here, not above: it reads the fixture's variables when it is imported

    from workers.cluster.remote_environments import RemoteMaker

    section = PettingZoo(
        path="tests.training_core.marl.environments.parallel:Countdown", args={"leaves": "red_1"}
    )
    remote: Any = ray.remote(num_cpus=0)(MarlEnvWorker)
    workers = [remote.remote(section) for _ in range(2)]
    try:
        environments = RemoteMaker(workers)(section, 3)
        view = environments.reset(0)
        assert environments.count == 3 and view.observations["agents"].shape == (3, 3, 4)
        stay = {"agents": np.zeros((3, 3), dtype=np.int64)}
        assert environments.step(stay).rewards["agents"].tolist() == [[1, 2, 3]] * 3
        with pytest.raises(
            EnvironmentFailure, match="environment 0, step: agents changed in mid-episode: red_1 left"
        ):
            environments.step(stay)
        tag = SimpleTag(max_cycles=2)
        workers += (others := [remote.remote(tag) for _ in range(2)])
        apart, here = RemoteMaker(others)(tag, 3), make_environments(tag, 3)
        moves = {role: np.full((3, len(own.agents)), 2) for role, own in here.spec.roles.items()}
        for each in (apart, here):
            each.reset(4)
        assert apart.step(moves, (0, 2)).last_boards == here.step(moves, (0, 2)).last_boards == {}
        boards = apart.step(moves, (0, 2)).last_boards
        assert set(boards) == {0, 2} and boards == here.step(moves, (0, 2)).last_boards
        ray.kill(workers[1])
        with pytest.raises(WorkerLost, match="environment worker died"):
            environments.reset(1)
    finally:
        for worker in workers:
            ray.kill(worker)
