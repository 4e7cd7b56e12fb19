"""Completions of TRL's trainers as transcripts."""

import json
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow
import pyarrow.parquet
import pytest

from tests.architecture.source import ROOT
from tests.workers.gateway.environments import client_python
from troupe_client.reporting.client import ClientRun, run_begin
from troupe_client.reporting.completions import Completions

PROGRAM = Path(__file__).parent / "trl_program.py"
TALK = [
    {"role": "assistant", "content": "2"},
    {"role": "user", "content": "no"},
    {"role": "assistant", "content": "3"},
]


def events_of(folder: Path, kind: str) -> list[dict[str, Any]]:
    lines = [line for path in folder.rglob("spool/*.jsonl") for line in path.read_text().splitlines()]
    return [event for event in map(json.loads, lines) if event["type"] == kind]


def write(folder: Path, step: int, rows: list[Mapping[str, Any]]) -> None:
    """Write a file as TRL does."""
    (folder / "completions").mkdir(exist_ok=True)
    table = pyarrow.Table.from_pylist([{"step": step, **row} for row in rows])
    pyarrow.parquet.write_table(table, folder / "completions" / f"completions_{step:05d}.parquet")


@pytest.fixture
def run(tmp_path: Path) -> ClientRun:
    return run_begin(mode="offline", dir=str(tmp_path))


def test_each_completion_is_an_episode_with_the_weighted_reward(run: ClientRun, tmp_path: Path) -> None:
    args = SimpleNamespace(output_dir=str(tmp_path), log_completions=True, reward_weights=[0.5, 2.0])
    logs = {"loss": 0.1, "rewards/length/mean": 2.0, "rewards/right/mean": 0.5, "reward": 2.0}
    ask = [{"role": "user", "content": "1 + 2?"}]
    rows = [
        {"prompt": ask, "completion": TALK, "length": 4.0, "right": 1.0, "note": 7.0, "advantage": 0.7},
        {"prompt": ask, "completion": TALK[:1], "length": 2.0, "right": None, "note": 7.0, "advantage": -0.7},
    ]
    completions = Completions()
    write(tmp_path, 3, rows[:1])  # of an earlier program
    completions.expect(args, 3, logs)
    completions.report(run)
    completions.expect(args, 3, logs)
    write(tmp_path, 3, rows)
    completions.report(run)
    completions.report(run)
    completions.expect(args, 4, logs)
    write(tmp_path, 4, rows)  # the same completions, which TRL learns from in two steps
    completions.report(run)
    completions.expect(args, 4, {f"eval_{name}": value for name, value in logs.items()})
    write(tmp_path, 4, [{**rows[1], "prompt": "1 + 2?", "completion": "3"}])
    completions.report(run)
    completions.expect(args, 5, {"train_runtime": 1.0})
    write(tmp_path, 5, rows)
    completions.report(run)
    run.finish()
    first, second, evaluated = events_of(run.folder, "episode")
    assert (first["episode_return"], second["episode_return"]) == (4.0, 1.0)
    assert first["task"] == second["task"] and first["iteration"] == 3
    assert [turn["candidates"][0]["text"] for turn in first["turns"]] == ["2", "3"]
    assert [len(turn["messages"]) for turn in first["turns"]] == [1, 3]
    assert first["turns"][1]["candidates"][0]["advantage"] == 0.7
    assert (evaluated["kind"], evaluated["title"]) == ("eval", "1 + 2?")
    assert evaluated["turns"][0]["candidates"][0]["text"] == "3"


@pytest.mark.extended
@pytest.mark.parametrize("how", ["whole", "error"])
def test_a_grpo_trainer_reports_its_completions(
    how: str, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    python = client_python("trl", tmp_path_factory)
    env = os.environ | {"TROUPE_MODE": "offline", "TROUPE_DIR": str(tmp_path), "PYTHONPATH": str(ROOT)}
    command = [python, PROGRAM, tmp_path / "out", how]
    done = subprocess.run(
        command, env=env | {"HF_HUB_OFFLINE": "1"}, capture_output=True, text=True, check=False
    )
    (_, end) = events_of(tmp_path, "status")
    episodes = events_of(tmp_path, "episode")
    rewards = {
        event["step"]: event["values"]["train/reward"]
        for event in events_of(tmp_path, "metrics")
        if "train/reward" in event["values"]
    }
    steps = [1] if how == "error" else [1, 2]
    assert list(rewards) == steps, done.stderr
    for step in steps:
        mine = [episode for episode in episodes if episode["iteration"] == step]
        assert len(mine) == 4 and len({episode["task"] for episode in mine}) == 2
        assert sum(episode["episode_return"] for episode in mine) / 4 == pytest.approx(
            rewards[step], rel=1e-4
        )
        assert all(turn["candidates"][0]["text"] for episode in mine for turn in episode["turns"])
    ended = ("failed", "ValueError: no reward") if how == "error" else ("finished", "")
    assert (end["state"], end["message"]) == ended
