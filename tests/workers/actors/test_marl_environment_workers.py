"""Runs of small networks whose environments have their own processes: the same curve, failures that name the environment, workers
that die."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.workers.running import curve, events
from training_core.config.files import load_config
from training_core.config.marl import MarlConfig
from training_core.marl.environments.config import CustomMarl, PettingZoo, SimpleTag
from training_core.marl.environments.episodes import episode_seeds
from training_core.marl.environments.registry import make_environments
from training_core.marl.trainer import COLLECTION
from training_core.seeding import keyed_seed
from workers.actors.environment_workers import MarlEnvWorker
from workers.driver.attempt import run_attempt
from workers.protocol import Attempt, WorkerLost

pytestmark = pytest.mark.ray

MORTAL = "tests.training_core.marl.environments.fragile:Mortal"


def first_seed(number: int, seed: int) -> int:
    """Of an environment's first episode after a reset with `seed`."""
    return int(episode_seeds(seed, np.array([number]), np.array([0]))[0])


def run(folder: Path, workers: int) -> dict[Any, Any]:
    """The learning curve of a short run, less what a clock says."""
    config = load_config(
        "spread_toy",
        {
            "environment": {"type": "simple_foraging_pz", "max_cycles": 12},
            "run.iterations": 2,
            "rollout.environments": 5,
            "rollout.steps": 16,
            "evaluation.episodes": 3,
            "resources.environment_workers": workers,
            "resources.environment_cpus": 0.1,
            "resources.cpus": 0.1,
        },
    )
    assert isinstance(config, MarlConfig)
    assert run_attempt(Attempt(config, f"r{workers}", 1, folder, folder.parent), local=False) == 0
    return curve(folder)


def test_the_curve_does_not_depend_on_environment_workers(ray_cluster: None, tmp_path: Path) -> None:
    alone, shared = run(tmp_path / "alone", 0), run(tmp_path / "shared", 2)
    assert {key for key, _ in alone} >= {"eval/return", "train/return", "policy/agents/value_loss"}
    assert shared == alone


def host(name: str, section: Any) -> Any:
    """A process for environments of this section."""
    import ray  # here, not above: it reads the fixture's variables when it is imported

    from workers.actors.remote_environments import Host

    remote: Any = ray.remote(num_cpus=0)(MarlEnvWorker)
    return Host(name, lambda life: remote.remote(section))


def end(worker: Any) -> None:
    """Kill a process, and wait until it is dead."""
    import ray
    from ray.exceptions import RayActorError

    ray.kill(worker)
    with pytest.raises(RayActorError):
        while True:
            ray.get(worker.ping.remote())


@pytest.fixture
def hosts(ray_cluster: None) -> Iterator[Callable[[Any], list[Any]]]:
    """Makes two processes for environments of a section."""
    import ray

    made: list[Any] = []

    def make(section: Any) -> list[Any]:
        both = [host(f"environment-{number}", section) for number in range(2)]
        made.extend(both)
        return both

    yield make
    for each in made:
        ray.kill(each.handle)


def test_shares_step_in_their_workers_and_failures_name_the_environment(hosts: Any) -> None:
    from workers.actors.remote_environments import RemoteMaker

    path = "tests.training_core.marl.environments.parallel:Countdown"
    section = PettingZoo(path=path, args={"vanishes": "red_1"})
    environments = RemoteMaker(hosts(section))(section, 3)
    view = environments.reset(0)
    assert environments.count == 3 and view.observations["agents"].shape == (3, 3, 4)
    stay = {"agents": np.zeros((3, 3), dtype=np.int64)}
    assert environments.step(stay).rewards["agents"].tolist() == [[1, 2, 3]] * 3
    failures = environments.step(stay).failures
    assert [failures[row].error.split(": ")[0] for row in range(3)] == [
        f"environment {row}, {path}, step" for row in range(3)
    ]


def test_a_dead_worker_is_replaced_and_its_episodes_fail(hosts: Any) -> None:
    from workers.actors.remote_environments import RemoteMaker

    tag = SimpleTag(max_cycles=4)
    both = hosts(tag)
    maker = RemoteMaker(both)
    apart, here, other = maker(tag, 3), make_environments(tag, 3), maker(tag, 2)
    moves = {role: np.full((3, len(own.agents)), 2) for role, own in here.spec.roles.items()}
    for each in (apart, here, other):
        begun = each.reset(4)
    own = here.step(moves)
    apart.step(moves)
    end(both[1].handle)
    assert apart.board(2) is None and apart.board(1) == here.board(1)
    lost, own = apart.step(moves), here.step(moves)
    assert list(lost.failures) == [2] and lost.failures[2].lost
    assert lost.failures[2].error == "environment-1 died and was replaced; its environments were restarted"
    assert lost.truncated.tolist() == [False, False, True] and not lost.terminated.any()
    start = make_environments(tag, 3).reset(4)
    for role, seen in lost.view.observations.items():
        assert np.array_equal(seen[:2], own.view.observations[role][:2])
        assert np.array_equal(seen[2], start.observations[role][2])
        assert (
            np.array_equal(lost.rewards[role][:2], own.rewards[role][:2]) and not lost.rewards[role][2].any()
        )
    assert apart.step(moves).failures == {}
    # other shares of that process are lost too, and restart at their next reset
    again = other.reset(4)
    assert all(np.array_equal(again.observations[role], seen) for role, seen in begun.observations.items())
    assert other.step({role: chosen[:2] for role, chosen in moves.items()}).failures == {}
    end(both[0].handle)
    assert apart.reset(4).observations.keys() == start.observations.keys()


def test_a_worker_is_replaced_at_most_max_lives_times(hosts: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from workers.actors.remote_environments import RemoteMaker

    monkeypatch.setattr("workers.actors.members.MAX_LIVES", 1)
    section = CustomMarl(path=MORTAL, args={"seed": first_seed(1, 0)})
    environments = RemoteMaker(hosts(section))(section, 2)
    environments.reset(0)
    stay = {"agents": np.zeros((2, 2), dtype=np.int64)}
    moved = [environments.step(stay) for _ in range(3)]
    assert [list(step.failures) for step in moved] == [[], [1], []]
    with pytest.raises(WorkerLost, match="environment-1 died 2 times"):
        environments.step(stay)


def test_a_run_continues_after_the_death_of_an_environment_worker(ray_cluster: None, tmp_path: Path) -> None:
    """In the second step of the first iteration, once. The process has two of the four environments."""
    fatal = first_seed(2, keyed_seed(0, COLLECTION, 1, 0) % 2**31)
    config = load_config(
        "spread_toy",
        {
            "run.seed": 0,
            "run.iterations": 2,
            "environment": {
                "type": "custom_marl",
                "path": MORTAL,
                "args": {"seed": fatal, "marker": str(tmp_path / "died")},
            },
            "rollout.environments": 4,
            "rollout.steps": 8,
            "evaluation.episodes": 4,
            "resources.environment_workers": 2,
            "resources.environment_cpus": 0.1,
            "resources.cpus": 0.1,
        },
    )
    folder = tmp_path / "run"
    assert run_attempt(Attempt(config, "mortal", 1, folder, tmp_path), local=False) == 0
    assert (tmp_path / "died").exists()
    values = curve(folder)
    assert (values["rollout/failed", 1], values["rollout/failed", 2], values["eval/failed", 2]) == (2, 0, 0)
    # two episodes in each of two environments; in the others one that was lost and, after six more steps, one that ended
    assert (values["progress/episodes", 1], values["train/return", 1]) == (4 + 2 + 2, 10.0)
    kept = [event for event in events(folder, "episode") if event["failed"]]
    assert [event["error"] for event in kept] == [
        "environment-1 died and was replaced; its environments were restarted"
    ] * 2
    assert all(event["outcome"] == "failed in step 2" and event["episode_return"] == 1.0 for event in kept)
