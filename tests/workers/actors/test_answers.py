"""Errors of actors as people read them: what was raised, how a process ended, never Ray's paragraph."""

import os
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.workers.running import events, small_config
from training_core.config.files import parse_config
from training_core.errors import ConfigError, EnvironmentFailure, ModelError
from workers.driver.attempt import FAILED, run_attempt
from workers.protocol import Attempt

pytestmark = [pytest.mark.ray, pytest.mark.extended]


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

    from workers.actors.members import answer

    outer = actor(Outer, actor(Inner))
    with pytest.raises(error) as told:
        answer(outer.ask.remote(kind))
    assert str(told.value) == text
    assert type(told.value) is error
    assert isinstance(told.value.__cause__, RayTaskError), "the log keeps the traceback"


def test_an_actors_death_has_a_short_reason(ray_cluster: None) -> None:
    import ray
    from ray.exceptions import RayActorError

    from workers.actors.members import answer, exit_of

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
    for _ in range(2):
        with pytest.raises(ValueError, match="^no such device$"):  # a replacement would raise it again
            answer(broken.pid.remote())


class Full:
    """An actor whose device has no memory left, as torch reports it."""

    def work(self) -> None:
        import torch

        raise torch.OutOfMemoryError(
            "CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has 79.11 GiB in total"
        )

    def load(self) -> None:
        raise ModelError(
            "disk quota: use at 100 percent", remedy="set policies.*.model to a folder; not a file"
        )


def test_an_actors_error_states_its_remedy(ray_cluster: None) -> None:
    from workers.actors.members import answer
    from workers.telemetry.faults import fault_of

    with pytest.raises(RuntimeError) as told:
        answer(actor(Full).work.remote())
    fault = fault_of(told.value)
    assert fault.cause == "The GPU is out of memory: CUDA out of memory."
    assert "policies.*.learner.micro_batch_tokens" in fault.remedy
    with pytest.raises(ModelError) as told:
        answer(actor(Full).load.remote())
    fault = fault_of(told.value)
    assert fault.cause == "Disk quota: use at 100 percent."
    assert fault.remedy == "Set policies.*.model to a folder; not a file."


@pytest.mark.parametrize(
    ("path", "args", "cause"),
    [("Say", {"boats": 4}, "unexpected keyword argument 'boats'"), ("Nobody", {}, "has no 'Nobody'")],
)
def test_an_environment_that_cannot_be_constructed_is_not_retried(
    ray_cluster: None, little_model: Path, tmp_path: Path, path: str, args: dict[str, Any], cause: str
) -> None:
    environment = {"type": "custom", "path": f"tests.workers.driver.own:{path}", "args": args}
    tree = {
        "team": {"roles": {"speaker": {"policy": "p"}}},
        "policies": {"p": {"model": str(little_model)}},
        "environment": environment,
    }
    assert run_attempt(Attempt(parse_config(tree), "own", 1, tmp_path, tmp_path), local=False) == FAILED
    last = events(tmp_path, "status")[-1]
    assert cause in last["message"] and "Traceback" not in last["message"]
    assert last["remedy"] == "Correct this field, then launch again."
    assert last["facts"] == {}, "no other attempt follows"
    logged = " ".join(event["message"] for event in events(tmp_path, "log"))
    assert "it is replaced" not in logged


def test_a_dead_policy_is_reported_in_one_sentence(
    ray_cluster: None, little_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import ray

    from workers.driver.ray_backend import RayBackend

    collect = RayBackend.collect

    def kill_and_collect(self: RayBackend, iteration: int) -> Any:
        if iteration == 2:
            assert self._session is not None
            os.kill(ray.get(self._session.workers["policy-planner"].handle.ping.remote()), signal.SIGKILL)
        return collect(self, iteration)

    monkeypatch.setattr(RayBackend, "collect", kill_and_collect)
    config = small_config(little_model, evaluation__every=0)
    assert run_attempt(Attempt(config, "told", 1, tmp_path, tmp_path), local=False) == FAILED
    last = events(tmp_path, "status")[-1]
    assert last["facts"] == {"retry": True}
    assert last["message"] == (
        "policy-planner died, and with it what policy 'planner' had learnt since the last checkpoint: its process was "
        "killed or crashed (often out of memory)."
    )
    assert last["remedy"].startswith("Lower rollout.tasks, resources.environments_per_worker or ")
    logged = "\n".join(event["message"] for event in events(tmp_path, "log"))
    assert "Traceback" in logged, "the log keeps it"
