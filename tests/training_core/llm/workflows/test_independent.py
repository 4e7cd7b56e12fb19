"""Evaluation: one answer a turn, nothing selected, the same noise at every evaluation."""

from dataclasses import replace

from tests.training_core.llm.workflows.counting import Recorder, make_context
from training_core.llm.workflows.episodes import play_independent
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
