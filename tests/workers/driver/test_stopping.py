"""A stop or pause while an iteration takes long: the last completed iteration is saved at once, and nothing is played in vain."""

import os
import signal
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.workers.running import curve, events, small_config, small_networks
from training_core.checkpoints import checkpoints, read_state
from training_core.config.kinds import AnyConfig
from workers.actors.coordinator import RolloutCoordinator
from workers.actors.marl_worker import MarlWorker
from workers.driver.attempt import run_attempt
from workers.protocol import Attempt, Collected
from workers.reporting.reporter import Reporter

APART = {
    "policies__planner__devices__placement": "apart",
    "policies__executor__devices__placement": "apart",
    "rollout__staleness": 1,
}
MAKERS: dict[str, Callable[[Path], AnyConfig]] = {
    "synchronous": lambda model: small_config(model, run__iterations=4, checkpoint__every=0),
    "asynchronous": lambda model: small_config(model, run__iterations=4, checkpoint__every=0, **APART),
    "small networks": lambda model: small_networks(
        "spread_mappo", checkpoint__every=0, evaluation__episodes=4
    ),
}


def is_there(folder: Path, iteration: int) -> bool:
    return iteration in checkpoints(folder / "checkpoints")


def hold(monkeypatch: pytest.MonkeyPatch, folder: Path, before: Callable[[], None], at: int = 3) -> None:
    """Stop during play: the iteration ends only after the previous one has a checkpoint."""

    def holding(cls: type) -> None:
        collect = cls.collect  # type: ignore[attr-defined]

        def wait_and_collect(self: Any, iteration: int) -> Collected:
            if iteration == at:
                before()
                waited = threading.Event()
                for _ in range(6000):
                    if is_there(folder, at - 1) or waited.wait(0.02):
                        break
                assert is_there(folder, at - 1), "nothing was saved while the iteration was played"
            collected: Collected = collect(self, iteration)
            return collected

        monkeypatch.setattr(cls, "collect", wait_and_collect)

    holding(RolloutCoordinator)
    holding(MarlWorker)


@pytest.mark.parametrize("kind", MAKERS)
def test_a_pause_saves_the_last_completed_iteration_while_the_next_is_played(
    kind: str, little_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    monkeypatch.setattr(Reporter, "command", property(lambda self: asked[-1] if asked else None))
    config, folder = MAKERS[kind](little_model), tmp_path / "run"
    hold(monkeypatch, folder, lambda: asked.append("pause"))
    assert run_attempt(Attempt(config, "r", 1, folder, tmp_path), local=True) == 0
    told = [(event["state"], event["iteration"]) for event in events(folder, "status")][-1]
    assert told == ("paused", 3), "the iteration under way is completed"
    assert list(checkpoints(folder / "checkpoints")) == [2, 3]
    assert [event["iteration"] for event in events(folder, "checkpoint")] == [2, 3]


@pytest.mark.extended
@pytest.mark.parametrize("kind", ["synchronous", "small networks"])
def test_what_is_saved_in_mid_play_is_the_last_completed_iteration(
    kind: str, little_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An attempt that resumes from it gives the curve of an uninterrupted run."""
    asked: list[str] = []
    config, whole, folder = MAKERS[kind](little_model), tmp_path / "whole", tmp_path / "run"
    assert run_attempt(Attempt(config, "r", 1, whole, tmp_path), local=True) == 0
    with monkeypatch.context() as patch:
        patch.setattr(Reporter, "command", property(lambda self: asked[-1] if asked else None))
        hold(patch, folder, lambda: asked.append("stop"))
        assert run_attempt(Attempt(config, "r", 1, folder, tmp_path), local=True) == 0
    second = folder / "checkpoints" / "iteration-000002"
    assert read_state(second)["progress"]["episodes"] == curve(whole)["progress/episodes", 2]
    assert run_attempt(Attempt(config, "r", 2, folder, tmp_path, second), local=True) == 0
    again = curve(folder, 2)
    assert again == {key: value for key, value in curve(whole).items() if key in again}
    assert {("train/return", 3), ("train/return", 4), ("eval/return", 4)} <= again.keys()


def test_sigterm_leaves_the_iteration_and_keeps_the_one_before(
    little_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "run"
    hold(monkeypatch, folder, lambda: os.kill(os.getpid(), signal.SIGTERM))
    before = signal.getsignal(signal.SIGTERM)
    assert (
        run_attempt(Attempt(MAKERS["synchronous"](little_model), "r", 1, folder, tmp_path), local=True) == 0
    )
    assert signal.getsignal(signal.SIGTERM) is before
    told = [(event["state"], event["iteration"]) for event in events(folder, "status")][-1]
    assert told == ("stopped", 2)
    assert list(checkpoints(folder / "checkpoints")) == [2]


def test_a_failed_checkpoint_during_play_is_reported_and_not_fatal(
    little_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from training_core.errors import CheckpointError
    from workers.driver.local_backends import LocalBackend

    asked: list[str] = []
    failed = threading.Event()
    save, collect = LocalBackend.save, RolloutCoordinator.collect

    def fail_once(self: LocalBackend, folder: Path) -> None:
        if not failed.is_set():
            failed.set()
            raise CheckpointError("cannot write the checkpoint: the disk is full")
        save(self, folder)

    def wait_and_collect(self: RolloutCoordinator, iteration: int) -> Collected:
        if iteration == 2:
            asked.append("pause")
            assert failed.wait(120)
        return collect(self, iteration)

    monkeypatch.setattr(LocalBackend, "save", fail_once)
    monkeypatch.setattr(RolloutCoordinator, "collect", wait_and_collect)
    monkeypatch.setattr(Reporter, "command", property(lambda self: asked[-1] if asked else None))
    folder = tmp_path / "run"
    config = small_config(little_model, run__iterations=4, checkpoint__every=0, evaluation__every=0)
    assert run_attempt(Attempt(config, "r", 1, folder, tmp_path), local=True) == 0
    assert events(folder, "status")[-1]["state"] == "paused"
    assert list(checkpoints(folder / "checkpoints")) == [2]
    lines = [event["message"] for event in events(folder, "log") if event["level"] == "warning"]
    assert any("the disk is full" in line for line in lines)
