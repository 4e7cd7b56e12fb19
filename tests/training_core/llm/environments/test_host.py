"""The host: slots that do not touch each other, copies that are tried, errors that stay where they happened."""

from dataclasses import replace

import pytest

from training_core.llm.environments.base import StepResult
from training_core.llm.environments.host import EnvironmentHost, Source
from training_core.llm.environments.plan_path.game import PlanPath, PlanPathEnvironment
from training_core.llm.environments.registry import ENVIRONMENTS, EnvironmentKind

CONFIG = PlanPath()


def test_views_are_those_of_the_environment_itself() -> None:
    host = EnvironmentHost(CONFIG, seed=3)
    views = host.reset({0: (4, "train"), 5: (4, "eval")})
    alone = PlanPathEnvironment(CONFIG, 3)
    for slot, split in ((0, "train"), (5, "eval")):
        alone.reset(4, split)  # type: ignore[arg-type]
        assert (views[slot].title, views[slot].board, views[slot].task_id) == (
            alone.title,
            alone.board(),
            f"{split}-4",
        )
        assert host.observe([slot], "planner")[slot].observation == alone.observe("planner")


def test_trying_changes_nothing_and_committing_takes_one_copy() -> None:
    host = EnvironmentHost(CONFIG, seed=0)
    host.reset({0: (0, "train"), 1: (1, "train")})
    before = host.observe([0, 1], "executor")
    moves = ["up", "down", "left", "right"]
    results = host.try_answers({0: moves}, "executor")[0]
    assert host.observe([0, 1], "executor") == before
    assert not isinstance(results, str)
    index = next(place for place, result in enumerate(results) if result.info == f"walks {moves[place]}")
    host.commit({0: index})
    after = host.observe([0, 1], "executor")
    assert f"last {moves[index]}" in after[0].observation
    assert after[1] == before[1]


def test_copied_states_play_on_apart() -> None:
    """Slot 1 has the state of slot 0 after the second answer, slot 2 that before it; none moves another."""
    host = EnvironmentHost(CONFIG, seed=0)
    host.reset({0: (0, "train")})
    results = host.try_answers({0: ["up", "down", "left", "right"]}, "executor")[0]
    assert not isinstance(results, str)
    tried = next(place for place, result in enumerate(results) if result.info.startswith("walks"))
    before = host.observe([0], "executor")[0]
    copied = host.spread({1: Source(0, tried), 2: Source(0)})
    assert copied[2].board == before.board
    host.commit({0: tried})
    after = host.observe([0, 1, 2], "executor")
    assert after[1] == after[0] != before
    assert after[2] == before
    host.try_answers({1: ["up down left right"]}, "executor")
    host.commit({1: 0})
    assert host.observe([0, 2], "executor") == {0: after[0], 2: before}


def test_a_copy_has_the_error_of_its_source() -> None:
    host = EnvironmentHost(CONFIG, seed=0)
    host.reset({0: (0, "train"), 1: (1, "train")})
    error = host.try_answers({0: [5]}, "executor")[0]  # type: ignore[list-item]
    assert isinstance(error, str) and host.spread({1: Source(0)})[1].error == error
    assert host.spread({1: Source(7)})[1].error == "KeyError: 7"


def test_scores_are_those_of_one_answer_each() -> None:
    host = EnvironmentHost(CONFIG, seed=0)
    host.reset({0: (0, "train")})
    answers = ["north", "east south", "hello", "west west west"]
    alone = PlanPathEnvironment(CONFIG, 0)
    alone.reset(0, "train")
    expected: list[StepResult] = [alone.copy().act("planner", answer) for answer in answers]
    assert host.try_answers({0: answers}, "planner")[0] == expected


def test_a_slot_can_be_used_again() -> None:
    host = EnvironmentHost(CONFIG, seed=0)
    host.reset({0: (0, "train")})
    host.try_answers({0: ["east"]}, "planner")
    host.commit({0: 0})
    again = host.reset({0: (0, "train")})[0]
    assert (again.done, again.error) == (False, "")
    assert host.observe([0], "executor")[0].observation.endswith("plan none")


def test_a_reward_that_is_no_number_fails_its_own_slot_only(monkeypatch: pytest.MonkeyPatch) -> None:
    class Broken(PlanPathEnvironment):
        def act(self, role: str, answer: str) -> StepResult:
            step = super().act(role, answer)
            return replace(step, local_reward=float("nan")) if self.task_id == "train-1" else step

    monkeypatch.setitem(ENVIRONMENTS, "plan_path", EnvironmentKind(PlanPath, Broken))
    host = EnvironmentHost(PlanPath(), 0)
    host.reset({0: (0, "train"), 1: (1, "train")})
    tried = host.try_answers({0: ["north"], 1: ["north"]}, "planner")
    assert isinstance(tried[0], list)
    assert (
        tried[1]
        == "EnvironmentFailure: rewards of nan and 0.0 are not finite; act() must return finite rewards"
    )
    assert host.observe([1], "executor")[1].error == tried[1]
