"""Weights that an update worker broadcasts to rollout workers in other processes; workers that die before and during that."""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.gpu.tasks import make_groups, make_prompts
from tests.workers.running import small_config
from training_core.llm.generation.base import SamplingSettings
from workers.sizing.placement import place

pytestmark = pytest.mark.ray
DEVICES = "policies__planner__devices__"
BROADCAST: dict[str, Any] = {
    DEVICES + "placement": "apart",
    DEVICES + "weight_transfer": "collective",
    DEVICES + "rollout_workers": 2,
    DEVICES + "rollout_cpus": 0.1,
}
PROMPTS, SETTINGS = make_prompts(4, 4, 3, 12), SamplingSettings(max_tokens=4)


@contextmanager
def planner(model: Path, folder: Path) -> Iterator[Any]:
    """The planner's two rollout workers and its update worker, started."""
    import ray

    from workers.actors.members import Spawner
    from workers.actors.remote_policy import RemotePolicy

    config = small_config(model, **BROADCAST)
    placement, spawner = place(config), Spawner(config, folder, folder.name, None)
    rollouts, updaters = (
        [spawner.member(slot) for slot in placement.of(kind, "planner")] for kind in ("rollout", "update")
    )
    policy = RemotePolicy(rollouts, updaters, collective=True)
    try:
        policy.start(None)
        yield policy
    finally:
        for member in (*policy._rollouts, *policy._updaters):
            ray.kill(member.handle)


def learn(policy: Any, version: int) -> None:
    """Generate and update; the weights are not published yet."""
    answers = policy.generate(PROMPTS, SETTINGS, version).answers
    policy.update(make_groups(PROMPTS, answers), version + 1, version, set())


def check_weights(policy: Any, version: int) -> None:
    """All rollout workers have the update worker's weights, bit by bit, as `version`."""
    import ray

    learnt = ray.get(policy._updaters[0].handle.__ray_call__.remote(lambda worker: worker.learner.weights()))
    for member in policy._rollouts:
        number, weights = ray.get(
            member.handle.__ray_call__.remote(
                lambda worker: (worker.engine.version, worker.engine.model.state_dict())
            )
        )
        assert number == version and weights.keys() == learnt.keys()
        assert all(torch.equal(weights[name], learnt[name]) for name in learnt)


def kill(member: Any) -> None:
    """End a worker's process as the kernel would."""
    import ray

    os.kill(ray.get(member.handle.ping.remote()), signal.SIGKILL)


def is_connected(policy: Any) -> bool:
    return bool(policy._broadcast.includes(policy._rollouts))


def test_broadcast_weights_are_equal_and_replaced_workers_join(
    ray_cluster: None, little_model: Path, tmp_path: Path
) -> None:
    with planner(little_model, tmp_path) as policy:
        learn(policy, 0)
        spans = policy.publish(1, 1)
        assert is_connected(policy) and [span.phase for span in spans] == ["sync", "sync"]
        check_weights(policy, 1)

        kill(policy._rollouts[0])
        policy.generate(PROMPTS, SETTINGS, 1)  # replaces it
        assert policy._rollouts[0].life == 1 and not is_connected(policy)
        check_weights(policy, 1)
        learn(policy, 1)
        policy.publish(2, 2)
        assert is_connected(policy)
        check_weights(policy, 2)

        learn(policy, 2)
        kill(policy._rollouts[1])  # found dead by the broadcast
        policy.publish(3, 3)
        assert policy._rollouts[1].life == 1 and not is_connected(policy)
        check_weights(policy, 3)
        learn(policy, 3)
        policy.publish(4, 4)
        assert is_connected(policy)
        check_weights(policy, 4)


@pytest.mark.extended
def test_a_failed_broadcast_falls_back_to_the_object_store(
    ray_cluster: None, little_model: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    import ray

    from workers.actors.members import CONTROL

    with planner(little_model, tmp_path) as policy:
        policy.publish(1, 0)
        learn(policy, 1)
        leave = policy._rollouts[1].handle.__ray_call__.options(concurrency_group=CONTROL)
        ray.get(leave.remote(lambda worker: worker._group.close()))
        assert len(policy.publish(2, 1)) == 2
        assert "object store" in caplog.text and not is_connected(policy)
        check_weights(policy, 2)
        learn(policy, 2)
        policy.publish(3, 2)
        assert is_connected(policy)
        check_weights(policy, 3)
