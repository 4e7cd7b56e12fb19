"""Errors of actors as people read them: what was raised, how a process ended, never Ray's paragraph."""

import os
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.workers.running import events, small_config
from training_core.errors import ConfigError, EnvironmentFailure
from workers.driver.attempt import FAILED, run_attempt
from workers.protocol.records import Attempt

pytestmark = pytest.mark.ray


class Inner:
    def fail(self, kind: str) -> None:
        if kind == "config":
            raise ConfigError({"run.seed": "is odd"})
        if kind == "plain":
            raise KeyError("gone")
        raise EnvironmentFailure("the floor gave way")

    def end(self) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    def pid(self) -> int:
        return os.getpid()


class Outer:
    """An actor that asks another one."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    def ask(self, kind: str) -> None:
        import ray

        ray.get(self._inner.fail.remote(kind))


class Broken:
    def __init__(self) -> None:
        raise ValueError("no such device")

    def pid(self) -> int:
        return 0


def actor(cls: type, *arguments: Any) -> Any:
    import ray

    remote: Any = ray.remote(num_cpus=0)(cls)
    return remote.remote(*arguments)


@pytest.mark.parametrize(
    ("kind", "error", "text"),
    [
        ("config", ConfigError, "run.seed: is odd"),
        ("environment", EnvironmentFailure, "the floor gave way"),
        ("plain", KeyError, "'gone'"),
    ],
)
def test_an_actors_error_is_unwrapped_through_two_actors(
    ray_cluster: None, kind: str, error: type[Exception], text: str
) -> None:
    from ray.exceptions import RayTaskError

    from workers.cluster.answers import answer

    outer = actor(Outer, actor(Inner))
    with pytest.raises(error) as told:
        answer(outer.ask.remote(kind))
    assert str(told.value) == text
    assert type(told.value) is error
    assert isinstance(told.value.__cause__, RayTaskError), "the log keeps the traceback"


def test_an_actors_death_has_a_short_reason(ray_cluster: None) -> None:
    import ray
    from ray.exceptions import RayActorError

    from workers.cluster.answers import answer, exit_of

    killed, ended, broken = actor(Inner), actor(Inner), actor(Broken)
    with pytest.raises(RayActorError) as told:
        answer(killed.end.remote())
    assert exit_of(told.value) == "its process was killed or crashed (often out of memory)"
    answer(ended.pid.remote())
    ray.kill(ended)
    with pytest.raises(RayActorError) as told:
        while True:
            answer(ended.pid.remote())
    assert exit_of(told.value) == "it was ended by its run"
    with pytest.raises(RayActorError) as told:
        answer(broken.pid.remote())
    assert exit_of(told.value) == "it could not start: ValueError: no such device"


@pytest.mark.slow
def test_a_dead_policy_is_reported_in_one_sentence(
    ray_cluster: None, little_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import ray

    from workers.cluster.ray_backend import RayBackend

    collect = RayBackend.collect

    def kill_and_collect(self: RayBackend, iteration: int) -> Any:
        if iteration == 2:
            assert self._session is not None
            os.kill(ray.get(self._session.workers["policy-planner"].ping.remote()), signal.SIGKILL)
        return collect(self, iteration)

    monkeypatch.setattr(RayBackend, "collect", kill_and_collect)
    config = small_config(little_model, evaluation__every=0)
    assert run_attempt(Attempt(config, "told", 1, tmp_path, tmp_path), local=False) == FAILED
    last = events(tmp_path, "status")[-1]
    assert last["facts"] == {"retry": True}
    assert last["message"] == (
        "policy-planner died, and with it what policy 'planner' had learnt since the last checkpoint: its process was "
        "killed or crashed (often out of memory). A new attempt starts from the last checkpoint."
    )
    logged = "\n".join(event["message"] for event in events(tmp_path, "log"))
    assert "Traceback" in logged, "the log keeps it"
