"""The short job `worth` on a little model: new episodes of a checkpoint, and a stored episode."""

from pathlib import Path
from typing import Any

import pytest

from tests.workers.running import small_config
from training_core.config.files import to_toml
from workers.job import main
from workers.jobs.context import JobContext
from workers.jobs.language_models import coordinator_of, proxies_of
from workers.storage.folders import JobFolder


def do(folder: Path, model: Path, **parameters: Any) -> tuple[int, JobFolder]:
    job = JobFolder(folder)
    request = {"kind": "worth", "parameters": parameters, "checkpoint": "", "other": ""}
    job.open(to_toml(small_config(model)), request)
    return main([str(folder), "--home", str(folder.parent)]), job


def test_new_episodes_and_one_of_them_stored(tmp_path: Path, little_model: Path) -> None:
    """Every message has a worth; evaluations report their sums; a stored episode is measured as it was when it was new."""
    settings = {"alternatives": 3, "continuations": 2, "outcome": "return"}
    status, job = do(tmp_path / "new", little_model, episodes=2, **settings)
    result = job.read("result") or {}
    assert status == 0, job.read("error")
    played, continuations = job.kept()[:2], job.kept()[2:]
    worths = [turn["worth"] for episode in played for turn in episode["turns"]]
    assert result["messages"] == len(worths) and result["tokens"] > 0 and result["left_out"] == 0
    for role, total in result["worth"].items():
        own = [worth["worth"] for worth in worths if worth["role"] == role]
        assert total["worth"] == pytest.approx(sum(own) / 2)
    shown = next(worth for worth in worths if worth["alternatives"])
    first = job.kept()[shown["alternatives"][0]["continuation"]]
    said = [turn["candidates"][turn["executed"]]["text"] for turn in first["turns"]]
    assert continuations and shown["alternatives"][0]["text"] in said

    config = small_config(little_model, evaluation__worth=2)
    context = JobContext(config, job, tmp_path, {})
    coordinator = coordinator_of(context, config, proxies_of(context, config))
    figures = coordinator.evaluate(0, "eval", 4).figures
    assert {
        f"eval/{role}/{name}" for role in result["worth"] for name in ("worth", "influence")
    } <= figures.keys()

    for turn in played[0]["turns"]:
        del turn["worth"]
    status, again = do(tmp_path / "stored", little_model, recorded=played[:1], **settings)
    assert status == 0, again.read("error")
    first_worths = [turn["worth"]["worth"] for turn in again.kept()[0]["turns"]]
    assert first_worths == pytest.approx([worth["worth"] for worth in worths[: len(first_worths)]])
