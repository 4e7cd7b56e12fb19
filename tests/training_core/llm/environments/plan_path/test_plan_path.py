"""plan_path: rewards and observations computed by hand, distances against a naive search, tasks that never overlap."""

from itertools import product

import pytest

from tests.training_core.llm.environments.puzzles import check_demonstrations, check_play, check_splits
from training_core.llm.environments.plan_path.game import (
    PLAN_PATH_TASKS,
    Grid,
    PlanPath,
    PlanPathEnvironment,
    PlanPathGrid,
    PlanPathSingle,
    PlanPathTrio,
    distances,
)
from training_core.llm.environments.plan_path.wording import Cell
from training_core.llm.environments.task_environment import HELD_OUT_TASKS

task_grid = PLAN_PATH_TASKS.instance
held_out_grids = PLAN_PATH_TASKS.held_out

# S # .      the shortest walk from S to G has 4 steps: down, down, right, right
# . # .
# . . G
CORNER = Grid(3, frozenset({(0, 1), (1, 1)}), (0, 0), (2, 2))


def started(grid: Grid = CORNER, **settings: float) -> PlanPathEnvironment:
    """An environment on a given grid."""
    environment = PlanPathEnvironment(PlanPath(size=grid.size, **settings), seed=0)  # type: ignore[arg-type]
    environment.start(grid, "train-0")
    return environment


def walk(environment: PlanPathEnvironment, answer: str) -> tuple[float, float]:
    """Local and team reward of the executor's answer."""
    result = environment.act("executor", answer)
    return result.local_reward, result.team_reward


def naive_distances(grid: Grid) -> dict[Cell, int]:
    """Relax all cells until nothing changes (Bellman-Ford): slow, and nothing like a queue."""
    cells = [cell for cell in product(range(grid.size), repeat=2) if grid.free(cell)]
    length = dict.fromkeys(cells, 10**6) | {grid.goal: 0}
    for _ in cells:
        for row, column in cells:
            for other in cells:
                if abs(row - other[0]) + abs(column - other[1]) == 1:
                    length[(row, column)] = min(length[(row, column)], length[other] + 1)
    return {cell: steps for cell, steps in length.items() if steps < 10**6}


@pytest.mark.parametrize("number", range(40))
def test_distances_equal_a_naive_search(number: int) -> None:
    grid = task_grid(PlanPath(size=6, wall_share=0.35), 3, number, "train")
    assert distances(grid) == naive_distances(grid)


@pytest.mark.parametrize("number", range(40))
def test_the_goal_is_reachable_and_differs_from_the_start(number: int) -> None:
    grid = task_grid(PlanPath(size=5, wall_share=0.4), 0, number, "eval")
    assert naive_distances(grid)[grid.start] >= 2
    assert len(grid.walls) == 10
    assert not grid.walls & {grid.start, grid.goal}


def test_a_step_towards_the_goal_earns_shaping_minus_cost() -> None:
    # potential: -1 at the start, -3/4 one step on; 0.99 * -3/4 - -1 = 0.2575; the step costs 0.01
    assert walk(started(), "down") == pytest.approx((0.2475, 0.0))


def test_a_step_away_loses_more_than_it_had_won() -> None:
    environment = started()
    there, back = walk(environment, "down")[0], walk(environment, "up")[0]
    # 0.99 * -1 - -3/4 = -0.24, minus 0.01
    assert back == pytest.approx(-0.25)
    assert there + back < 0


def test_blocked_moves_and_invalid_words_cost_a_tenth() -> None:
    for answer in ("right", "up", "left", "", "east", "goal", "down down down down", "down hop"):
        environment = started()
        assert walk(environment, answer) == pytest.approx((-0.1, 0.0)), answer
        assert environment.cell == (0, 0)


def test_a_blocked_word_does_not_end_the_walk() -> None:
    environment = started()
    # right is a wall: -0.1; then two steps down: 0.2475 and 0.99 * -2/4 + 3/4 - 0.01 = 0.245
    assert walk(environment, "right down down") == pytest.approx((-0.1 + 0.2475 + 0.245, 0.0))
    assert environment.cell == (2, 0)


def test_the_shaping_terms_telescope() -> None:
    environment = started(shaping_discount=0.9, step_reward=0.0, max_turns=20)
    words = ["down", "up", "down", "down", "up", "down", "right", "left", "right", "right"]
    terms = [walk(environment, word)[0] for word in words]
    assert environment.success
    # sum over t of 0.9^t * (0.9 * after - before) = 0.9^T * last potential - first = 0 - -1, whatever way was taken
    assert sum(0.9**t * term for t, term in enumerate(terms)) == pytest.approx(1.0)


def test_the_goal_pays_the_team_and_the_shortest_walk_pays_more() -> None:
    short = started()
    walk(short, "down down")
    assert walk(short, "right right")[1] == pytest.approx(1.5)
    assert (short.success, short.done, short.outcome) == (True, True, "reached the goal in 2 turns")
    long = started()
    walk(long, "down up down")
    walk(long, "down right")
    assert walk(long, "right")[1] == pytest.approx(1.0)


def test_a_walk_ends_at_the_goal_whatever_else_was_said() -> None:
    environment = started()
    walk(environment, "down down right")
    result = environment.act("executor", "right up up")
    assert result.success
    assert environment.cell == environment.grid.goal
    assert result.local_reward == pytest.approx(0.99 * 0 + 0.25 - 0.01)


def test_turns_run_out() -> None:
    environment = started(max_turns=2, fail_reward=-1.0)
    assert walk(environment, "down") == pytest.approx((0.2475, 0.0))
    assert walk(environment, "down")[1] == -1.0
    assert (environment.done, environment.success, environment.outcome) == (True, False, "turns used up")


def test_a_plan_is_scored_as_if_no_wall_stood_anywhere() -> None:
    # the goal is 2 east, 2 south: in the open every plan towards it is as good as any other, wall or none
    through_walls = started().act("planner", "east east south")
    round_them = started().act("planner", "south south east")
    assert through_walls.local_reward == pytest.approx(round_them.local_reward)
    # three steps of four: potentials -1, -3/4, -2/4, -1/4 under 0.99, and three times the cost of a step
    assert through_walls.local_reward == pytest.approx(0.99 * (-0.75 - 0.5 - 0.25) + 1 + 0.75 + 0.5 - 0.03)
    assert (through_walls.team_reward, through_walls.done) == (0.0, False)


def test_a_plan_away_from_the_goal_loses_and_no_plan_costs() -> None:
    assert started().act("planner", "north").local_reward == pytest.approx(0.99 * -1.25 + 1 - 0.01)
    for answer in ("", "up", "east right", "east east east east"):
        environment = started()
        assert environment.act("planner", answer).local_reward == pytest.approx(-0.1), answer
        assert environment.plan == ()


def test_a_plan_is_not_scored_beyond_the_goal() -> None:
    environment = started()
    walk(environment, "down down right")
    exact, more = (
        environment.copy().act("planner", "east"),
        environment.copy().act("planner", "east east north"),
    )
    assert exact.local_reward == more.local_reward > 0


def test_each_role_sees_its_own_part() -> None:
    environment = started()
    assert environment.observe("planner") == "goal 2 east 2 south"
    environment.act("planner", "south east")
    assert (
        environment.observe("executor")
        == "up wall down free left wall right wall ; last none ; plan south east"
    )
    walk(environment, "down")
    assert environment.observe("planner") == "goal 2 east 1 south"
    assert environment.observe("executor") == "up free down free left wall right wall ; last down ; plan none"


def test_the_executor_learns_that_it_is_stuck() -> None:
    environment = started()
    for answer, seen in (
        ("right", "stuck"),
        ("down", "down"),
        ("left", "down stuck"),
        ("nonsense", "down stuck"),
    ):
        walk(environment, answer)
        assert environment.observe("executor").split(" ; ")[1] == f"last {seen}"


def test_the_planner_sees_no_walls_and_the_executor_no_goal() -> None:
    elsewhere = Grid(3, CORNER.walls, (0, 0), (2, 1))
    assert started(elsewhere).observe("executor") == started().observe("executor")
    open_field = Grid(3, frozenset(), (0, 0), (2, 2))
    assert started(open_field).observe("planner") == started().observe("planner")


@pytest.mark.parametrize("config", [PlanPath(), PlanPathSingle(), PlanPathTrio()])
def test_any_play_keeps_to_the_vocabulary_and_ends(config: PlanPathGrid) -> None:
    moves = ["left left left", "up down up", "right", "nonsense"]
    plans = {"planner": ["south", "north east", "up"], "scout": ["up left", "none", "hm"]}
    check_play(config, plans | {"executor": moves, "walker": moves})
    check_demonstrations(config, 500)
    check_splits(PLAN_PATH_TASKS, config)


@pytest.mark.parametrize(
    "config", [PlanPath(), PlanPath(size=4, wall_share=0.07), PlanPath(size=3, wall_share=0.12)]
)
def test_training_never_meets_a_held_out_task(config: PlanPath) -> None:
    """On small grids both streams draw the same instances over and over: they would meet if only seeds differed."""
    held_out = {task_grid(config, 0, number, "eval") for number in range(HELD_OUT_TASKS)}
    assert held_out == set(held_out_grids(config))
    trained = {task_grid(config, seed, number, "train") for seed in range(2) for number in range(700)}
    assert not held_out & trained


def test_held_out_tasks_are_all_different() -> None:
    assert len(set(held_out_grids(PlanPath()))) == HELD_OUT_TASKS
    few = held_out_grids(PlanPath(size=3, wall_share=0.12))
    assert len(set(few)) == len(few) < HELD_OUT_TASKS


def test_the_board_shows_walls_goal_and_agent() -> None:
    environment = started()
    walk(environment, "down")
    assert environment.board() == {
        "kind": "grid",
        "rows": 3,
        "columns": 3,
        "cells": [[0, 1, "wall"], [1, 1, "wall"], [2, 2, "goal"], [1, 0, "agent"]],
    }
    assert environment.title == "3×3, 2 walls, 4 steps"
