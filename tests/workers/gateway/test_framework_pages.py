"""Agent frameworks in environments of their own play and train a run, by the programs of the documentation's page."""

import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.architecture.source import ROOT
from tests.docs.fences import fences
from tests.workers.gateway.environments import client_python, node_programs
from tests.workers.gateway.tool_model import tool_model
from tests.workers.running import curve, events
from training_core.config.files import load_config
from workers.driver.attempt import run_attempt
from workers.protocol import Attempt

RUN = "4f2k9x1m"
"""The run that the page's programs name."""
PROGRAMS = {"agents": "from agents import", "langgraph": "from langchain", "smolagents": "from smolagents"}
"""What a program of the page contains, by its environment."""
TEAMS = {"ag2": "from ag2 import", "crewai": "from crewai import"}
"""Programs of two agents, with a policy each."""
SETTINGS: dict[str, Any] = {
    "environment.type": "dataset",
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


@dataclass(frozen=True)
class Played:
    """A run that a program of the page has played."""

    output: str
    curve: dict[tuple[str, int], float]
    episodes: list[dict[str, Any]]


def played(
    text: str,
    python: Path | str,
    folder: Path,
    changes: dict[str, Any] | None = None,
    path: str = "",
    *,
    team: tuple[str, ...] = ("solver",),
) -> Played:
    """Train a run while the program of the page that contains `text` plays it; `path` is added to its PATH."""
    run = folder / "runs" / RUN
    run.mkdir(parents=True)
    lines = folder / "lines.jsonl"
    lines.write_text("\n".join(json.dumps({"prompt": f"goal {n}", "answer": "north"}) for n in range(40)))
    policy = {"model": str(tool_model(folder / "model")), "learner": {"learning_rate": 0.01}}
    roles = {role: {"policy": role, "sampling": {"max_tokens": 2}} for role in team}
    own = {"environment.path": str(lines), "team.roles": roles, "policies": dict.fromkeys(team, policy)}
    (program,) = (fence.text for fence in fences("docs/train/agent-frameworks.md") if text in fence.text)
    (folder / "program.py").write_text(program)
    variables = {"TROUPE_HOME": str(folder), "HOME": str(folder), "PYTHONPATH": str(ROOT)}
    variables["OMP_NUM_THREADS"] = "1"
    variables["PATH"] = f"{path}{os.pathsep}{os.environ['PATH']}" if path else os.environ["PATH"]
    with (folder / "output").open("w") as output:
        playing = subprocess.Popen(
            [python, folder / "program.py"],
            env=os.environ | variables,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
        try:
            config = load_config("plan_path_duo", SETTINGS | own | (changes or {}))
            code = run_attempt(Attempt(config, RUN, 1, run, folder), local=True)
            assert playing.wait(timeout=120) == code == 0, (folder / "output").read_text()
        finally:
            playing.kill()
    values = curve(run)
    assert not any(value for (name, _), value in values.items() if name == "rollout/failed")
    return Played((folder / "output").read_text(), values, events(run, "episode"))


@pytest.mark.extended
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_framework_learns_by_the_program_of_the_page(
    name: str, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """It learns to call the tool or to answer, and every episode is one sequence, unless the framework rewrites its history."""
    result = played(PROGRAMS[name], client_python(name, tmp_path_factory), tmp_path)
    assert "Played(episodes=256" in result.output
    if name == "smolagents":
        return
    returns = [result.curve["train/return", step] for step in range(1, 9)]
    assert sum(returns[-3:]) > sum(returns[:3]) + 0.3, returns
    assert result.episodes and all(len(event["turns"]) == 1 for event in result.episodes)


@pytest.mark.extended
@pytest.mark.parametrize("name", TEAMS)
def test_agents_of_a_framework_learn_with_policies_of_their_own(
    name: str, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Both learn, and each has one sequence in an episode, unless the framework rewrites its history."""
    team, python = ("scout", "walker"), client_python(name, tmp_path_factory)
    result = played(TEAMS[name], python, tmp_path, team=team)
    assert "Played(episodes=256" in result.output
    for role in team:
        rewards = [result.curve[f"train/{role}/reward", step] for step in range(1, 9)]
        assert sum(rewards[-3:]) > sum(rewards[:3]) + 0.3, (role, rewards)
    turns = [[turn["role"] for turn in event["turns"]] for event in result.episodes]
    assert turns and all(set(roles) <= set(team) for roles in turns)
    assert name == "crewai" or all(len(set(roles)) == len(roles) for roles in turns)


@pytest.mark.extended
def test_a_coding_agent_plays_in_a_sandbox(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Its calls of tools and their results continue one sequence."""
    if not shutil.which("bwrap"):
        pytest.skip("there is no bwrap")
    programs = node_programs("@openai/codex", tmp_path_factory)
    changes = {"run.iterations": 1}
    result = played("bwrap", sys.executable, tmp_path, changes, str(programs))
    assert "Played(episodes=32" in result.output
    assert 0.0 < result.curve["train/return", 1] < 1.0
    assert len(result.episodes) == 32 and all(len(event["turns"]) == 1 for event in result.episodes)
    assert any("user" in event["turns"][0]["candidates"][0]["text"] for event in result.episodes)
