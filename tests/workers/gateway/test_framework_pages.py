"""Agent frameworks in environments of their own play and train a run, by the programs of the documentation's page."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.architecture.source import ROOT
from tests.docs.fences import fences
from tests.workers.gateway.environments import client_python
from tests.workers.gateway.tool_model import tool_model
from tests.workers.running import curve, events
from training_core.config.files import load_config
from workers.driver.attempt import run_attempt
from workers.protocol import Attempt

RUN = "4f2k9x1m"
"""The run that the page's programs name."""
PROGRAMS = {"agents": "from agents import", "langgraph": "from langchain", "smolagents": "from smolagents"}
"""What a program of the page contains, by its environment."""
SETTINGS: dict[str, Any] = {
    "environment.type": "dataset",
    "team.roles": {"solver": {"policy": "solver", "sampling": {"max_tokens": 2}}},
    "workflow.type": "agent",
    "workflow.failure_reward": 0.0,
    "workflow.patience": 120.0,
    "rollout.tasks": 4,
    "rollout.group_size": 8,
    "run.iterations": 8,
    "run.failure_patience": 2,
    "evaluation.every": 0,
    "checkpoint.every": 0,
    "reporting.episodes_per_iteration": 32,
}


@pytest.mark.extended
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_framework_learns_by_the_program_of_the_page(
    name: str, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """It learns to call the tool or to answer, and every episode is one sequence, unless the framework rewrites its history."""
    python = client_python(name, tmp_path_factory)
    folder = tmp_path / "runs" / RUN
    folder.mkdir(parents=True)
    lines = tmp_path / "lines.jsonl"
    lines.write_text("\n".join(json.dumps({"prompt": f"goal {n}", "answer": "north"}) for n in range(40)))
    policy = {"model": str(tool_model(tmp_path / "model")), "learner": {"learning_rate": 0.01}}
    own = {"environment.path": str(lines), "policies": {"solver": policy}}
    (program,) = (
        fence.text for fence in fences("docs/train/agent-frameworks.md") if PROGRAMS[name] in fence.text
    )
    (tmp_path / "program.py").write_text(program)
    variables = {"TROUPE_HOME": str(tmp_path), "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    with (tmp_path / "output").open("w") as output:
        playing = subprocess.Popen(
            [python, tmp_path / "program.py"],
            env=os.environ | variables,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
        try:
            config = load_config("plan_path_duo", SETTINGS | own)
            code = run_attempt(Attempt(config, RUN, 1, folder, tmp_path), local=True)
            assert playing.wait(timeout=120) == code == 0, (tmp_path / "output").read_text()
        finally:
            playing.kill()
    assert "Played(episodes=256" in (tmp_path / "output").read_text()
    values = curve(folder)
    assert not any(values["rollout/failed", step] for step in range(1, 9))
    if name == "smolagents":
        return
    returns = [values["train/return", step] for step in range(1, 9)]
    assert sum(returns[-3:]) > sum(returns[:3]) + 0.3, returns
    played = events(folder, "episode")
    assert played and all(len(event["turns"]) == 1 for event in played)
