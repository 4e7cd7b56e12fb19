"""A stop or pause while an iteration takes long: the last completed iteration is saved at once, and nothing is played in vain."""

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
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


def config_of(kind: str, model: Path) -> AnyConfig:
    if kind == "small networks":
        return small_networks(
            "spread_mappo", checkpoint__every=0, evaluation__every=0, resources__environment_workers=1
        )
    extra: dict[str, Any] = APART if kind == "asynchronous" else {}
    return small_config(
        model,
        run__iterations=8 if kind == "asynchronous" else 4,
        checkpoint__every=0,
        evaluation__every=0,
        resources__environment_workers=1,
        **extra,
    )


POLLS = 6
"""Looks of the driver after which a collection whose environments stand still is taken to wait for them."""


@contextmanager
def frozen(
    monkeypatch: pytest.MonkeyPatch, first: int, ask: Callable[[], None], thaw: Callable[[int], bool]
) -> Iterator[list[int]]:
    """The environments' process stands still from iteration `first` on. Once the driver waits for it, `ask()`; it moves again
    when `thaw(iteration)`. Yields the iteration that waits.
    """
    import ray

    from workers.driver.ray_backend import RayBackend

    collect, collecting, over = RayBackend.collect, RayBackend._check_collecting, threading.Event()
    still: list[psutil.Process] = []
    waiting: list[int] = []
    polls: list[int] = []

    def freeze_and_collect(self: RayBackend, iteration: int) -> Any:
        if iteration == first:
            assert self._session is not None
            still.append(psutil.Process(ray.get(self._session.workers["environment-0"].handle.ping.remote())))
            still[0].suspend()
        self._iteration = iteration  # type: ignore[attr-defined]
        return collect(self, iteration)

    def look_and_ask(self: RayBackend) -> None:
        iteration = self._iteration  # type: ignore[attr-defined]
        polls.append(iteration)
        if still and not waiting and polls.count(iteration) >= POLLS:
            waiting.append(iteration)
            ask()
        collecting(self)

    def look() -> None:
        while not over.wait(0.05):
            if waiting and thaw(waiting[0]):
                still[0].resume()
                return

    monkeypatch.setattr(RayBackend, "collect", freeze_and_collect)
    monkeypatch.setattr(RayBackend, "_check_collecting", look_and_ask)
    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield waiting
    finally:
        over.set()
        thread.join()
        for process in still:
            if process.is_running():
                process.resume()


@pytest.mark.ray
@pytest.mark.extended
@pytest.mark.parametrize("kind", ["synchronous", "asynchronous", "small networks"])
def test_a_pause_saves_then_completes_the_iteration(
    kind: str, ray_cluster: None, little_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    monkeypatch.setattr(Reporter, "command", property(lambda self: asked[-1] if asked else None))

    def saved(iteration: int) -> bool:
        return iteration - 1 in checkpoints(tmp_path / "checkpoints")

    with frozen(monkeypatch, 2, lambda: asked.append("pause"), saved) as waiting:
        config = config_of(kind, little_model)
        assert run_attempt(Attempt(config, f"pause-{kind[:5]}", 1, tmp_path, tmp_path), local=False) == 0
    told = [(event["state"], event["iteration"]) for event in events(tmp_path, "status")][-1]
    assert told == ("paused", waiting[0])
    assert list(checkpoints(tmp_path / "checkpoints")) == [waiting[0] - 1, waiting[0]]


@pytest.mark.ray
@pytest.mark.extended
@pytest.mark.parametrize("kind", ["synchronous", "asynchronous", "small networks"])
def test_sigterm_saves_and_aborts_the_iteration(
    kind: str, ray_cluster: None, little_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, folder = tmp_path / "whole", tmp_path / "run"
    config = config_of(kind, little_model)
    with monkeypatch.context() as patch, frozen(patch, 2, terminate, lambda _: False) as waiting:
        assert run_attempt(Attempt(config, f"term-{kind[:5]}", 1, folder, tmp_path), local=False) == 0
    complete = waiting[0] - 1
    told = [(event["state"], event["iteration"]) for event in events(folder, "status")][-1]
    assert told == ("stopped", complete)
    assert list(checkpoints(folder / "checkpoints")) == [complete]
    if kind == "asynchronous":
        return  # tasks that were being played at a checkpoint are replayed with other weights
    saved = folder / "checkpoints" / f"iteration-{complete:06d}"
    assert run_attempt(Attempt(config, f"on-{kind[:5]}", 2, folder, tmp_path, saved), local=False) == 0
    assert run_attempt(Attempt(config, f"all-{kind[:5]}", 1, whole, tmp_path), local=False) == 0
    again = curve(folder, 2)
    assert ("train/return", 4) in again
    assert again == pytest.approx({key: curve(whole)[key] for key in again}, rel=1e-4, abs=1e-6)


def terminate() -> None:
    os.kill(os.getpid(), signal.SIGTERM)


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
