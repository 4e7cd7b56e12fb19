"""Environments spread over workers play as they do in one process, also when a worker dies in the middle."""

import os
import signal
from collections.abc import Iterator
from typing import Any

import pytest

from training_core.config.files import load_config
from training_core.llm.environments.host import EnvironmentHost, EnvironmentPool, Source

pytestmark = pytest.mark.ray

ANSWERS = {"planner": ["go up", "go left", "no idea"], "executor": ["up", "left", "down", "right"]}


def make_pool(label: str, workers: int) -> tuple[Any, list[Any]]:
    import ray

    from workers.actors.members import Spawner
    from workers.actors.remote_environments import RemotePool
    from workers.sizing.placement import place

    config = load_config("plan_path_duo", {"resources.environment_workers": workers})
    spawner = Spawner(config, None, label, None)  # type: ignore[arg-type]
    actor_slots = place(config).of("environment")
    members = [spawner.member(actor_slot) for actor_slot in actor_slots]
    handles = [member.handle for member in members]
    assert ray.get([handle.ping.remote() for handle in handles])
    return RemotePool(members), handles


def lives(pool: Any) -> list[int]:
    return [member.life for member in pool._workers]


@pytest.fixture
def pool(ray_cluster: None, request: pytest.FixtureRequest) -> Iterator[tuple[Any, list[Any]]]:
    import ray

    made, handles = make_pool(f"pool-{request.node.name}", 3)
    yield made, handles
    for handle in (*handles, *(member.handle for member in made._workers)):
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


def test_replacements_repeat_the_calls_of_dead_workers(pool: tuple[Any, list[Any]]) -> None:
    import ray

    config = load_config("plan_path_duo")
    spread, _ = pool
    alone = EnvironmentHost(config.environment, config.run.seed)
    assert opening(spread) == opening(alone)
    for turn in range(3):
        for role in ("planner", "executor"):
            assert step(spread, role, turn) == step(alone, role, turn)
        victim = ray.get(spread._workers[turn].handle.ping.remote())
        os.kill(victim, signal.SIGKILL)
    assert lives(spread) == [1, 1, 0], "the last one died after the last call"
    assert opening(spread) == opening(alone)
    assert lives(spread) == [1, 1, 1]


class Crossing:
    """A mutex that kills worker 0 and makes another thread's call notice it, as soon as a call was answered."""

    def __init__(self, pool: Any) -> None:
        self._pool, self._mutex = pool, pool._mutex
        self.crossed = False
        self._entered = 0

    def __enter__(self) -> None:
        self._entered += 1
        if self._entered == 2 and not self.crossed:  # first the call is sent, then what it did is noted
            self.crossed = True
            self._replace()
        self._mutex.__enter__()

    def __exit__(self, *error: Any) -> None:
        self._mutex.__exit__(*error)

    def _replace(self) -> None:
        import ray

        os.kill(ray.get(self._pool._workers[0].handle.ping.remote()), signal.SIGKILL)
        self._pool.reset({30: (7, "train")})  # slot 30 is worker 0's as well


@pytest.mark.parametrize("act", ["reset", "try_answers", "commit"])
def test_a_replacement_gets_calls_that_were_not_stored_yet(pool: tuple[Any, list[Any]], act: str) -> None:
    config = load_config("plan_path_duo")
    spread, _ = pool
    alone = EnvironmentHost(config.environment, config.run.seed)
    acts: dict[str, Any] = {
        "reset": lambda where: where.reset({0: (100, "train")}),
        "try_answers": lambda where: where.try_answers({0: ANSWERS["planner"]}, "planner"),
        "commit": lambda where: where.commit({0: 1}),
    }
    plain = spread._mutex
    for name, call in acts.items():
        crossing = Crossing(spread)
        if name == act:
            spread._mutex = crossing
            if act == "reset":
                crossing._entered = -1  # a reset first forgets what its slots had done
        assert call(spread) == call(alone), name
        spread._mutex = plain
        assert crossing.crossed == (name == act)
    assert lives(spread) == [1, 0, 0]
    assert spread.observe([0], "executor") == alone.observe([0], "executor")


def spread_out(pool: EnvironmentPool) -> list[Any]:
    """A planner's turn in two slots; its copies, of a tried answer and of a state, play on. Everything that the pool says."""
    said = [pool.reset({0: (100, "train"), 1: (101, "train")})]
    said += [pool.try_answers(dict.fromkeys((0, 1), ANSWERS["planner"]), "planner")]
    said += [pool.spread({5: Source(0, 1), 7: Source(1, 2), 9: Source(1, 0)})]
    said += [pool.commit({0: 0, 1: 0}), pool.spread({6: Source(0), 8: Source(7)})]
    return said


def play_out(pool: EnvironmentPool) -> list[Any]:
    slots = [0, 1, 5, 6, 7, 8, 9]
    said = [pool.observe(slots, "executor")]
    said += [pool.try_answers({slot: [ANSWERS["executor"][slot % 4]] for slot in slots}, "executor")]
    said += [pool.commit(dict.fromkeys(slots, 0)), pool.observe(slots, "planner")]
    return said


def test_a_replacement_has_the_copied_states(pool: tuple[Any, list[Any]]) -> None:
    """Copies live on the workers of their sources, 0 and 1, and outlive both, also when their sources start other tasks."""
    import ray

    config = load_config("plan_path_duo")
    spread, _ = pool
    alone = EnvironmentHost(config.environment, config.run.seed)
    assert spread_out(spread) == spread_out(alone)
    for where in (spread, alone):
        where.reset({2: (200, "train")})
    for worker in (0, 1):
        os.kill(ray.get(spread._workers[worker].handle.ping.remote()), signal.SIGKILL)
    assert play_out(spread) == play_out(alone)
    assert lives(spread) == [1, 1, 0]
    for where in (spread, alone):
        where.reset({0: (300, "train"), 1: (301, "train")})
    os.kill(ray.get(spread._workers[0].handle.ping.remote()), signal.SIGKILL)
    kept = [5, 6, 7, 8, 9]
    assert spread.observe(kept, "planner") == alone.observe(kept, "planner")
    assert lives(spread) == [2, 1, 0]
