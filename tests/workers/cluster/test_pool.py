"""Environments spread over workers play as they do in one process, also when a worker dies in the middle."""

import os
import signal
from collections.abc import Iterator
from typing import Any

import pytest

from training_core.config.files import load_config
from training_core.llm.environments.host import EnvironmentHost, EnvironmentPool

pytestmark = pytest.mark.ray

ANSWERS = {"planner": ["go up", "go left", "no idea"], "executor": ["up", "left", "down", "right"]}


def make_pool(label: str, workers: int) -> tuple[Any, list[Any]]:
    import ray

    from workers.cluster.placement import place
    from workers.cluster.pool import RemotePool
    from workers.cluster.spawner import Spawner

    config = load_config("plan_path_duo", {"resources.environment_workers": workers})
    spawner = Spawner(config, None, label, None)  # type: ignore[arg-type]
    seats = place(config).of("environment")
    handles = [spawner.env_worker(seat) for seat in seats]
    assert ray.get([handle.ping.remote() for handle in handles])
    return RemotePool(spawner, seats, handles), handles


@pytest.fixture
def pool(ray_cluster: None, request: pytest.FixtureRequest) -> Iterator[tuple[Any, list[Any]]]:
    import ray

    made, handles = make_pool(f"pool-{request.node.name}", 3)
    yield made, handles
    for handle in (*handles, *made._workers):
        ray.kill(handle)


def step(pool: EnvironmentPool, role: str, turn: int) -> list[Any]:
    """One role's turn in five slots; everything that the pool says."""
    slots = [0, 1, 2, 3, 4]
    views = pool.observe(slots, role)
    tried = pool.try_answers(dict.fromkeys(slots, ANSWERS[role]), role)
    after = pool.commit({slot: (slot + turn) % len(ANSWERS[role]) for slot in slots})
    return [dict(sorted(part.items())) for part in (views, tried, after)]


def opening(pool: EnvironmentPool) -> Any:
    return dict(sorted(pool.reset({slot: (100 + slot, "train") for slot in range(5)}).items()))


def test_workers_that_die_are_brought_back_to_where_they_were(pool: tuple[Any, list[Any]]) -> None:
    import ray

    config = load_config("plan_path_duo")
    spread, _ = pool
    alone = EnvironmentHost(config.environment, config.run.seed)
    assert opening(spread) == opening(alone)
    for turn in range(3):
        for role in ("planner", "executor"):
            assert step(spread, role, turn) == step(alone, role, turn)
        victim = ray.get(spread._workers[turn].ping.remote())
        os.kill(victim, signal.SIGKILL)
    assert spread._lives == [1, 1, 0], "the last one died after the last call"
    assert opening(spread) == opening(alone)
    assert spread._lives == [1, 1, 1]
