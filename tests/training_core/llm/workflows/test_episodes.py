"""Whole episodes as candidates: siblings of one task, compared by what each role earned; evaluation selects nothing."""

from dataclasses import replace

import pytest

from tests.training_core.llm.workflows.counting import Recorder, make_context
from training_core.llm.environments.base import StepResult
from training_core.llm.environments.host import AnswersBySlot
from training_core.llm.learning.training_groups import make_groups
from training_core.llm.workflows.context import RolloutContext
from training_core.llm.workflows.episodes import play_episodes, play_independent
from training_core.types import NoiseKey


def adds(number: int) -> Recorder:
    return Recorder(lambda seen, prompt, index: str(number))


def test_one_answer_a_turn_on_held_out_tasks() -> None:
    planner, executor = adds(7), adds(2)
    context = make_context({"planner": planner, "executor": executor}, evaluation__probes=1)
    first, second = play_independent([0, 1], context, "eval")
    assert executor.seen[:2] == ["eval task 0 total 7", "eval task 1 total 107"]
    assert [len(turn.candidates) for turn in first.turns + second.turns] == [1] * 8
    assert (second.final_board, second.task, second.success) == ({"total": 110}, "eval-1", True)
    assert (first.kind, first.probe, second.probe) == ("eval", True, False)
    assert (first.id, second.id) == ("1-3-eval-0", "1-3-eval-1")


def test_greedy_and_sampled_settings() -> None:
    planner = adds(1)
    context = make_context({"planner": planner, "executor": adds(1)}, evaluation__temperature=0.7)
    play_independent([0], context, "eval")
    play_independent([0], context, "eval_sampled")
    assert [(item.greedy, item.temperature) for item in planner.settings] == [(True, 1.0)] * 2 + [
        (False, 0.7)
    ] * 2


def test_noise_is_independent_of_the_iteration_and_of_the_run_seed() -> None:
    planner = adds(1)
    context = make_context({"planner": planner, "executor": adds(1)})
    play_independent([4], context, "eval_sampled")
    play_independent([4], replace(context, iteration=9), "eval_sampled")
    play_independent(
        [4], make_context({"planner": planner, "executor": adds(1)}, run__seed=5), "eval_sampled"
    )
    assert [prompt.key for prompt in planner.prompts] == [
        NoiseKey(0, 1, 0, 4, turn, 0) for turn in (0, 1)
    ] * 3


def test_a_failed_episode_leaves_the_others_alone() -> None:
    breaking = Recorder(lambda seen, prompt, index: "boom" if "task 0" in seen else "1")
    failed, good = play_independent([0, 1], make_context({"planner": breaking, "executor": adds(1)}), "eval")
    assert (failed.failed, failed.turns, good.success) == (True, [], True)


ROOM = {"workflow__type": "episodes", "resources__environments_per_worker": 192}


def default_context(**overrides: object) -> RolloutContext:
    """The planner adds 1, 2 or 3, by the sibling that it plays in; the executor takes away 1."""

    def plan(seen: str, prompt: object, index: int) -> str:
        return str(1 + prompt.key.task % 3)  # type: ignore[attr-defined]

    voices = {"planner": Recorder(plan), "executor": Recorder(lambda seen, prompt, index: "1")}
    return make_context(voices, **ROOM, **overrides)  # type: ignore[arg-type]


def test_every_task_is_played_by_siblings_with_noise_of_their_own() -> None:
    context = default_context()
    episodes = play_episodes([4, 5], context)
    assert [(each.siblings, each.task) for each in episodes] == [
        ("3-4", "train-4"), ("3-4", "train-4"), ("3-4", "train-4"),
        ("3-5", "train-5"), ("3-5", "train-5"), ("3-5", "train-5"),
    ]  # fmt: skip
    assert len({each.id for each in episodes}) == 6
    keys = [prompt.key for prompt in context.generate["planner"].prompts]  # type: ignore[attr-defined]
    assert len(set(keys)) == len(keys) == 12
    assert all(prompt.count == 1 for prompt in context.generate["planner"].prompts)  # type: ignore[attr-defined]


def test_a_turns_advantage_is_that_of_its_role_in_the_whole_episode() -> None:
    """From 100 the planner's totals are 100+x, 100+2x-1: returns 199+3x, and 1 of the team for the executor's last turn."""
    context = default_context()
    episodes = play_episodes([1], context)
    batch = make_groups(episodes, context.config)
    assert [each.role_return("planner") for each in episodes] == [203, 206, 209]
    for place, expected in enumerate((-1.0, 0.0, 1.0)):  # unbiased std of 203, 206, 209 is 3
        planned = [turn.candidates[0].advantage for turn in episodes[place].turns if turn.role == "planner"]
        assert planned == pytest.approx([expected] * 2, abs=1e-5)
    assert len(batch.groups["planner"]) == 6
    assert batch.counts["planner"].total == 1


def test_siblings_that_earn_the_same_teach_nothing_and_are_counted_once() -> None:
    voices = {name: Recorder(lambda seen, prompt, index: "1") for name in ("planner", "executor")}
    context = make_context(voices, **ROOM)  # type: ignore[arg-type]
    batch = make_groups(play_episodes([1, 2], context), context.config)
    assert batch.groups == {"planner": [], "executor": []}
    assert (batch.counts["planner"].total, batch.counts["planner"].zero_variance) == (2, 2)


def test_an_episode_that_fails_is_not_compared_with_its_siblings(monkeypatch: pytest.MonkeyPatch) -> None:
    """All siblings answer alike, and one loses its environment in the planner's second turn."""
    voices = {name: Recorder(lambda seen, prompt, index: "1") for name in ("planner", "executor")}
    context = make_context(voices, **ROOM)  # type: ignore[arg-type]
    whole, asked = context.pool.try_answers, []

    def breaks(answers: AnswersBySlot, role: str) -> dict[int, list[StepResult] | str]:
        asked.append(role)
        broken = {1: "ConnectionError: the simulator is away"} if asked.count("planner") == 2 else {}
        return whole(answers, role) | broken

    monkeypatch.setattr(context.pool, "try_answers", breaks)
    episodes = play_episodes([1], context)
    assert [each.failed for each in episodes] == [False, True, False]
    assert episodes[1].role_return("planner") != episodes[0].role_return("planner")
    batch = make_groups(episodes, context.config)
    assert batch.groups == {"planner": [], "executor": []}
    assert (batch.counts["planner"].total, batch.counts["planner"].zero_variance) == (1, 1)
    assert {c.advantage for each in episodes for turn in each.turns for c in turn.candidates} == {0.0}
