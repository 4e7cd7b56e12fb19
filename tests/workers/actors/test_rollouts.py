"""Tasks that teach nothing make room for others, by hand; rendered prompts are kept within a bound."""

from pathlib import Path
from typing import Any, cast

import pytest

from tests.workers.running import curve, events, small_config
from training_core.config.files import load_config
from training_core.config.run import RunConfig
from training_core.errors import ConfigError
from training_core.llm.learning.training_groups import is_informative
from training_core.types import Answer, Candidate, Episode, Turn
from workers.actors.player import Played, PromptCache
from workers.actors.rollouts import collect_informative
from workers.driver.attempt import run_attempt
from workers.protocol import Attempt


def test_the_prompts_used_last_stay() -> None:
    rendered: list[str] = []

    def get(name: str, length: int = 4) -> list[int]:
        def render() -> list[int]:
            rendered.append(name)
            return [length] * length

        return cache.get(name, render)

    cache = PromptCache(10)
    get("a"), get("b"), get("a"), get("c")
    assert rendered == ["a", "b", "c"] and len(cache) == 2
    assert get("a") == [4] * 4 and rendered == ["a", "b", "c"]
    get("b")
    assert rendered == ["a", "b", "c", "b"] and len(cache) == 2
    assert get("longer than the cache", 11) == [11] * 11 and len(cache) == 0
    get("a"), get("b")
    assert len(cache) == 2


ANSWER = Answer([1], [0.0], [0], "stop", "")


def episode(task: int, rewards: list[float], role: str = "planner", siblings: str = "") -> Episode:
    turn = Turn(0, role, role, [], [1], [Candidate(ANSWER, reward=reward) for reward in rewards], 0)
    return Episode(f"e{task}-{rewards}", 1, "train", f"train-{task}", "", [turn], siblings=siblings)


def config_of(**overrides: Any) -> RunConfig:
    return load_config("plan_path_duo", {"rollout.tasks": 4, "rollout.over_sampling": 2.5, **overrides})


class Playing:
    """Tasks of these numbers have rewards that differ."""

    def __init__(self, telling: set[int]) -> None:
        self.telling = telling
        self.asked: list[tuple[list[int], int]] = []

    def train(self, iteration: int, tasks: range, version: Any, *, episode: int = 0) -> Played:
        self.asked.append((list(tasks), episode))
        return Played([_episode(task, task in self.telling) for task in tasks], [])


def _episode(task: int, differs: bool) -> Episode:
    return episode(task, [0.0, 1.0] if differs else [1.0, 1.0])


def played(
    telling: set[int], iteration: int = 1, **overrides: Any
) -> tuple[list[str], int, list[tuple[list[int], int]]]:
    playing = Playing(telling)
    found = collect_informative(cast(Any, playing), config_of(**overrides), iteration, lambda policy: 0)
    return [each.task for each in found.episodes], found.left_out, playing.asked


def test_uninformative_tasks_are_replaced() -> None:
    tasks, left_out, asked = played({1, 3, 5, 6, 7, 8})
    assert asked == [([0, 1, 2, 3], 0), ([4, 5], 32), ([6], 48)], (
        "episodes are numbered on, 8 candidates a task"
    )
    assert tasks == ["train-1", "train-3", "train-5", "train-6"]
    assert left_out == 3


def test_uninformative_tasks_complete_the_batch_at_the_limit() -> None:
    tasks, left_out, asked = played({9})
    assert [numbers for numbers, _ in asked] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
    assert tasks == ["train-9", "train-0", "train-1", "train-2"]
    assert left_out == 6


def test_iterations_use_different_tasks() -> None:
    assert played(set(range(10, 20)), iteration=2)[0] == ["train-10", "train-11", "train-12", "train-13"]


def test_without_dynamic_sampling_no_task_is_replaced() -> None:
    tasks, left_out, asked = played({1}, **{"rollout.over_sampling": 1.0})
    assert (tasks, left_out) == (["train-0", "train-1", "train-2", "train-3"], 0)
    assert asked == [([0, 1, 2, 3], 0)]


def test_rewards_are_compared_as_groups_are() -> None:
    config = config_of()
    assert is_informative([episode(0, [0.0, 1.0])], config)
    assert not is_informative([episode(0, [1.0, 1.0])], config)
    assert is_informative([episode(0, [0.0], siblings="s"), episode(0, [1.0], siblings="s")], config)
    assert not is_informative([episode(0, [1.0], siblings="s"), episode(0, [1.0], siblings="s")], config)
    frozen = config_of(**{"team.roles.executor.trained": False})
    assert not is_informative([episode(0, [0.0, 1.0], role="executor")], frozen)


def test_dynamic_sampling_is_refused_in_the_asynchronous_loop() -> None:
    with pytest.raises(ConfigError, match=r"over_sampling"):
        config_of(**{
            "rollout.staleness": 1,
            "policies.planner.devices.placement": "apart",
            "policies.executor.devices.placement": "apart",
        })  # fmt: skip


def test_a_run_plays_more_tasks_if_rewards_seldom_differ(little_model: Path, tmp_path: Path) -> None:
    """Without shaping almost nothing is paid: almost all tasks teach nothing, and the batch keeps its size all the same."""
    unpaid = {f"environment.{name}": 0.0 for name in ("shaping", "step_reward", "blocked_reward")}
    overrides = unpaid | {
        "rollout.over_sampling": 3.0,
        "rollout.tasks": 6,
        "run.iterations": 2,
        "evaluation.every": 0,
    }
    attempt = Attempt(small_config(little_model, **overrides), "r", 1, tmp_path, tmp_path)
    assert run_attempt(attempt, local=True) == 0
    values = curve(tmp_path)
    assert 6 < values["rollout/left_out", 1] <= 12
    assert [len(event["episodes"]) for event in events(tmp_path, "batch")] == [6, 6]
