"""Runs of small networks that are killed during a collection resume from the last checkpoint with the same results."""

import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.architecture.source import ROOT
from tests.workers.running import curve
from training_core.config.files import load_config, to_toml
from training_core.marl.environments.episodes import episode_seeds
from training_core.marl.trainer import COLLECTION
from training_core.seeding import keyed_seed
from workers.driver.attempt import run_attempt
from workers.protocol import Attempt

MEMORY = {"recurrent_hidden_dim": 16, "chunk_length": 4}
NETWORKS: dict[str, dict[str, Any]] = {
    "mlp": {"type": "mlp"},
    "gru": {"type": "gru", **MEMORY},
    "transformer": {"type": "transformer", "heads": 4, "context_length": 4, **MEMORY},
}


def settings(network: dict[str, Any], marker: Path, fresh: str) -> Any:
    """Four iterations, of which the third ends the process, once, in the second environment.

    With new episodes in every iteration that is its first one there. Where episodes go on, the checkpoint is in mid-episode, at step
    18 of episodes of four, and the next one to begin is number 5.
    """
    iteration, episode = (3, 0) if fresh == "always" else (1, 5)
    seed = keyed_seed(0, COLLECTION, iteration, 0) % 2**31
    fatal = int(episode_seeds(seed, np.array([1]), np.array([episode]))[0])
    return load_config(
        "spread_toy",
        {
            "run.seed": 0,
            "run.iterations": 4,
            "environment": {
                "type": "custom_marl",
                "path": "tests.training_core.marl.environments.fragile:Mortal",
                "args": {"seed": fatal, "marker": str(marker)},
            },
            "policies.agents.network": {"hidden_dim": 16, **network},
            "rollout.environments": 4,
            "rollout.steps": 9,
            "rollout.fresh": fresh,
            "evaluation.every": 1,
            "evaluation.episodes": 4,
            "checkpoint.every": 2,
        },
    )


@pytest.mark.extended
@pytest.mark.parametrize("kind", NETWORKS)
@pytest.mark.parametrize("fresh", ["always", "auto"])
def test_a_killed_run_that_is_resumed_draws_the_same_curve(kind: str, fresh: str, tmp_path: Path) -> None:
    config, folder = settings(NETWORKS[kind], tmp_path / "died", fresh), tmp_path / "run"
    (tmp_path / "config.toml").write_text(to_toml(config))
    command = [sys.executable, "-m", "workers.run", str(tmp_path / "config.toml"), "--local", "--run", "r"]
    done = subprocess.run([*command, "--folder", str(folder), "--home", str(tmp_path)], cwd=ROOT, check=False)
    assert done.returncode == -signal.SIGKILL
    last = folder / "checkpoints" / "iteration-000002"
    assert run_attempt(Attempt(config, "r", 2, folder, tmp_path, resume_from=last), local=True) == 0
    whole = tmp_path / "whole"
    assert run_attempt(Attempt(config, "r", 1, whole, tmp_path), local=True) == 0
    expected = curve(whole)
    assert {("policy/agents/actor_loss", 4), ("eval/return", 4), ("progress/episodes", 4)} <= set(expected)
    assert curve(folder, 1) == {key: value for key, value in expected.items() if key[1] <= 2}
    assert curve(folder, 2) == {key: value for key, value in expected.items() if key[1] > 2}
