"""Sudoku: puzzles with one solution by a naive search, rewards by hand, what each role sees, demonstrations."""

from itertools import permutations, product
from random import Random

import pytest
from pydantic import ValidationError

from tests.training_core.llm.environments.puzzles import check_demonstrations, check_play, check_splits
from training_core.llm.environments.registry import ENVIRONMENTS
from training_core.llm.environments.sudoku import (
    NOISE,
    SUDOKU_TASKS,
    Puzzle,
    Sudoku,
    SudokuEnvironment,
    SudokuSingle,
    legal_digits,
    solutions,
    square_name,
)

# 1 2 3 4       four holes: r1c2 (2), r1c3 (3), r2c2 (4), r4c4 (1)
# 3 4 1 2
# 2 1 4 3
# 4 3 2 1
SOLUTION = (1, 2, 3, 4, 3, 4, 1, 2, 2, 1, 4, 3, 4, 3, 2, 1)
GIVEN = (1, 0, 0, 4, 3, 0, 1, 2, 2, 1, 4, 3, 4, 3, 2, 0)
CORNER = Puzzle(4, GIVEN, SOLUTION)


def started(puzzle: Puzzle = CORNER, **settings: float) -> SudokuEnvironment:
    """An environment on a given puzzle."""
    environment = SudokuEnvironment(Sudoku(**settings), seed=0)  # type: ignore[arg-type]
    environment.start(puzzle, "train-0")
    return environment


def turn(environment: SudokuEnvironment, square: str, digit: str) -> tuple[float, float]:
    """Point and write; local and team reward of the executor."""
    environment.act("planner", square)
    result = environment.act("executor", digit)
    return result.local_reward, result.team_reward


def naive_solutions(given: tuple[int, ...]) -> list[tuple[int, ...]]:
    """All 4×4 grids row by row from permutations, checked at the end: nothing like the solver."""
    rows = [
        [
            row
            for row in permutations((1, 2, 3, 4))
            if all(g in (0, d) for g, d in zip(part, row, strict=True))
        ]
        for part in (given[:4], given[4:8], given[8:12], given[12:])
    ]
    found = []
    for grid in product(*rows):
        columns = all(len({row[c] for row in grid}) == 4 for c in range(4))
        boxes = all(
            len({grid[r + i][c + j] for i in (0, 1) for j in (0, 1)}) == 4 for r in (0, 2) for c in (0, 2)
        )
        if columns and boxes:
            found.append(tuple(digit for row in grid for digit in row))
    return found


@pytest.mark.parametrize("holes", [6, 11])
def test_a_puzzle_has_so_many_holes_and_one_solution(holes: int) -> None:
    for number in range(15):
        puzzle = SUDOKU_TASKS.instance(Sudoku(holes=holes), 3, number, "train")
        assert puzzle.holes == holes
        assert naive_solutions(puzzle.given) == [puzzle.solution]


@pytest.mark.parametrize(("size", "holes", "boxes"), [(6, 20, (2, 3)), (9, 45, (3, 3))])
def test_larger_puzzles_keep_the_rules_and_have_one_solution(
    size: int, holes: int, boxes: tuple[int, int]
) -> None:
    puzzle = SUDOKU_TASKS.instance(Sudoku(size=size, holes=holes), 0, 0, "eval")  # type: ignore[arg-type]
    assert puzzle.holes == holes
    assert list(solutions(puzzle.given, size)) == [puzzle.solution]
    everything = set(range(1, size + 1))
    grid = [puzzle.solution[row * size : (row + 1) * size] for row in range(size)]
    high, wide = boxes
    for place in range(size):
        top, left = place // (size // wide) * high, place % (size // wide) * wide
        assert set(grid[place]) == everything
        assert {row[place] for row in grid} == everything
        assert {grid[top + i][left + j] for i in range(high) for j in range(wide)} == everything


def test_the_solver_finds_every_solution() -> None:
    empty = (0,) * 16
    assert len(list(solutions(empty, 4))) == 288 == len(naive_solutions(empty))
    given = (1, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 3)
    assert sorted(solutions(given, 4)) == sorted(naive_solutions(given))
    assert list(solutions((1, 2, 3, 0, 0, 0, 0, 4, *(0,) * 8), 4)) == []


def test_too_many_holes_are_refused_by_the_config() -> None:
    with pytest.raises(ValidationError, match="holes: at most 11 for size 4"):
        Sudoku(holes=12)


def test_a_right_digit_earns_its_share_and_a_wrong_one_nothing() -> None:
    # potential: minus the share of holes that are not right: -1, then -3/4; 0.99 * -3/4 + 1 - 0.01
    assert turn(started(), "r4c4", "1") == pytest.approx((0.2475, 0.0))
    # r1c3: its row has 1 and 4, its column 1, 4, 2, its box 1, 2, 4: only 3; r1c2: row 1, 4, column 1, 3: only 2
    one = Puzzle(4, (0, 0, 0, 0, *GIVEN[4:]), SOLUTION)
    environment = started(one)
    assert legal_digits(one.given, 0, 4) == [1]
    # without the first row, r1c2 may be 2 or 4; 4 breaks no rule, is not the solution's and is written: 7 squares are left as before
    assert legal_digits(one.given, 1, 4) == [2, 4]
    assert turn(environment, "r1c2", "4") == pytest.approx((0.99 * -1 + 1 - 0.01, 0.0))
    assert environment.board()["cells"][0] == [0, 1, 4, "wrong"]
    # it may be written over
    assert turn(environment, "r1c2", "2")[0] == pytest.approx(0.99 * -5 / 6 + 1 - 0.01)


def test_what_breaks_a_rule_is_refused_and_remembered() -> None:
    environment = started()
    assert turn(environment, "r1c2", "4") == pytest.approx((-0.1, 0.0))
    assert environment.digits == GIVEN
    assert environment.observe("planner").endswith("; refused r1c2")
    environment.act("planner", "r1c2")
    assert environment.observe("executor") == "row 1 4 ; column 1 3 ; box 1 3 ; now empty ; refused 4"
    environment.act("executor", "2")
    assert environment.observe("planner").endswith("; refused none")


def test_bad_answers_cost_a_tenth_and_change_nothing() -> None:
    for square in ("", "r1", "c2r1", "r5c1", "r1c1", "r1c2 r1c3", "2"):
        environment = started()
        assert environment.act("planner", square).local_reward == pytest.approx(-0.1), square
        assert environment.observe("executor") == "no square"
        assert environment.act("executor", "2").local_reward == pytest.approx(-0.1), square
        assert environment.digits == GIVEN
    for digit in ("", "0", "5", "two", "2 2", "r1", "²"):
        environment = started()
        assert turn(environment, "r1c2", digit) == pytest.approx((-0.1, 0.0)), digit
        assert environment.digits == GIVEN


def test_the_planner_is_scored_by_what_a_legal_digit_is_worth() -> None:
    open_row = Puzzle(4, (0, 0, 0, 0, 0, *GIVEN[5:]), SOLUTION)
    environment = started(open_row)
    # seven holes; r4c4 leaves one digit: one square less; r1c2 leaves two, one of them right: half a square
    assert environment.act("planner", "r4c4").local_reward == pytest.approx(0.99 * -6 / 7 + 1)
    assert len(legal_digits(open_row.given, 1, 4)) == 2
    assert environment.act("planner", "r1c2").local_reward == pytest.approx(0.99 * -6.5 / 7 + 1)
    turn(environment, "r4c4", "1")
    # pointing to what is right already: at best it stays right
    assert environment.act("planner", "r4c4").local_reward == pytest.approx(0.99 * -6 / 7 + 6 / 7)


def test_the_team_is_paid_when_it_is_solved_and_turns_run_out() -> None:
    environment = started()
    for square, digit in (("r1c3", "3"), ("r1c2", "2"), ("r2c2", "4")):
        assert turn(environment, square, digit)[1] == 0.0
    assert turn(environment, "r4c4", "1")[1] == 1.0
    assert (environment.success, environment.outcome) == (True, "solved in 4 turns")
    late = started(max_turns=2, fail_reward=-1.0)
    assert turn(late, "r4c4", "1")[1] == 0.0
    assert turn(late, "r1c2", "2")[1] == -1.0
    assert (late.done, late.success, late.outcome) == (True, False, "turns used up, 2 squares open")


def test_each_role_sees_its_own_part() -> None:
    environment = started()
    assert (
        environment.observe("planner") == "1 r1c2 r1c3 4 ; 3 r2c2 1 2 ; 2 1 4 3 ; 4 3 2 r4c4 ; refused none"
    )
    environment.act("planner", "r2c2")
    assert environment.observe("executor") == "row 1 2 3 ; column 1 3 ; box 1 3 ; now empty ; refused none"
    elsewhere = started(Puzzle(4, (*GIVEN[:15], 1), SOLUTION))
    elsewhere.act("planner", "r2c2")
    assert elsewhere.observe("executor") == environment.observe("executor"), (
        "the rest of the grid is not seen"
    )


@pytest.mark.parametrize("config", [Sudoku(), Sudoku(holes=2)])
def test_any_play_keeps_to_the_vocabulary_and_ends(config: Sudoku) -> None:
    squares = [square_name(square, 4) for square in range(0, 16, 3)]
    check_splits(SUDOKU_TASKS, config)
    check_play(config, {"planner": [*squares, "nonsense"], "executor": ["1", "2", "3", "4", "5"]})


def test_whoever_looks_for_squares_without_a_choice_solves_it() -> None:
    """What the team is to learn: it is enough for nearly all of the preset's tasks."""
    solved = 0
    for number in range(100):
        environment = SudokuEnvironment(Sudoku(), 0)
        environment.reset(number, "eval")
        while not environment.done:
            empty = [square for square, digit in enumerate(environment.digits) if not digit]
            square = min(empty, key=lambda each: len(legal_digits(environment.digits, each, 4)))
            environment.act("planner", square_name(square, 4))
            words = environment.observe("executor").split(" ; now")[0].split()
            environment.act("executor", next(digit for digit in "1234" if digit not in words))
        solved += environment.success
    assert solved >= 95


def test_demonstrations_know_half_of_it() -> None:
    pairs = check_demonstrations(Sudoku(), 8000)
    seen_by_planner, seen_by_executor = pairs[::2], pairs[1::2]
    empty = [said in grid.split(" ; refused")[0].split() for grid, said in seen_by_planner]
    # the noise sometimes hits an empty square too
    assert sum(empty) / len(empty) == pytest.approx(1 - NOISE, abs=0.04)
    in_row = [said in seen.split(" ; column")[0].split() for seen, said in seen_by_executor]
    in_column = [
        said in seen.split(" ; box")[0].split(" ; column")[1].split() for seen, said in seen_by_executor
    ]
    assert sum(in_row) / len(in_row) < NOISE
    assert sum(in_column) / len(in_column) > 2 * sum(in_row) / len(in_row)


def test_random_solutions_differ() -> None:
    found = {next(solutions([0] * 16, 4, Random(seed))) for seed in range(200)}
    assert len(found) > 100


def test_a_single_agent_sees_the_grid_and_writes() -> None:
    """The same rewards as of the executor's digit, and none for the choice of the square."""
    single = ENVIRONMENTS["sudoku_single"].make(SudokuSingle(shaping_discount=1.0), 0)
    single.start(CORNER, "train-0")
    assert single.observe("solver") == "1 r1c2 r1c3 4 ; 3 r2c2 1 2 ; 2 1 4 3 ; 4 3 2 r4c4 ; refused none"
    result = single.act("solver", "r4c4 3")
    assert (result.local_reward, result.info) == (-0.10, "3 is refused")
    assert single.observe("solver").endswith("refused r4c4 3")
    for answer in ("r1c1 2", "r4c4", "1", "r4c4 1 1", "nonsense 1", ""):
        assert single.copy().act("solver", answer).local_reward == -0.10, answer
    result = single.act("solver", "<think>r1c2 3</think> r4c4 1")
    assert result.local_reward == pytest.approx(-0.01 + 1 / 4) and result.team_reward == 0.0
    assert single.observe("solver").endswith("4 3 2 1 ; refused none")
    for answer in ("r1c2 2", "r1c3 3", "r2c2 4"):
        result = single.act("solver", answer)
    assert (result.team_reward, result.done, result.success) == (1.0, True, True)
    assert single.outcome == "solved in 5 turns"
