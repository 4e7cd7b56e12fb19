"""A stop of a run over actors whose iteration does not end: saved while it is played, completed when it can be."""

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
from training_core.checkpoints import checkpoints
from training_core.config.kinds import AnyConfig
from workers.driver.attempt import run_attempt
from workers.protocol import Attempt
from workers.reporting.reporter import Reporter

pytestmark = [pytest.mark.ray, pytest.mark.extended]
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

    from workers.cluster.ray_backend import RayBackend

    collect, collecting, over = RayBackend.collect, RayBackend._check_collecting, threading.Event()
    still: list[psutil.Process] = []
    waiting: list[int] = []
    polls: list[int] = []

    def freeze_and_collect(self: RayBackend, iteration: int) -> Any:
        if iteration == first:
            assert self._session is not None
            still.append(psutil.Process(ray.get(self._session.workers["environment-0"].ping.remote())))
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
