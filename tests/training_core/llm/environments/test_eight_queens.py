"""Eight queens: attacks against a naive count, rewards by hand, what each role sees, demonstrations."""

from itertools import combinations, permutations
from random import Random

import pytest

from tests.training_core.llm.environments.puzzles import check_demonstrations, check_play, check_splits
from training_core.llm.environments.eight_queens import (
    EIGHT_QUEENS_TASKS,
    NOISE,
    WELL_MOVED,
    EightQueens,
    EightQueensEnvironment,
    Position,
    attackers,
    attacking_pairs,
)

# Q . . .      pairs: (1, 2) on a diagonal, (2, 3) in a column, (3, 4) on a diagonal
# . Q . .
# . Q . .
# . . Q .
FOUR = Position((0, 1, 1, 2))


def started(position: Position = FOUR, **settings: float) -> EightQueensEnvironment:
    """An environment on a given board."""
    environment = EightQueensEnvironment(EightQueens(size=len(position.columns), **settings), seed=0)  # type: ignore[arg-type]
    environment.start(position, "train-0")
    return environment


def turn(environment: EightQueensEnvironment, row: str, column: str) -> tuple[float, float]:
    """Pick and move; local and team reward of the executor."""
    environment.act("planner", row)
    result = environment.act("executor", column)
    return result.local_reward, result.team_reward


def naive_pairs(columns: tuple[int, ...]) -> int:
    """Pairs in one column or on one diagonal, by the sums and differences of their coordinates."""
    queens = list(enumerate(columns))
    return sum(
        (a[1] == b[1]) + (a[0] + a[1] == b[0] + b[1]) + (a[0] - a[1] == b[0] - b[1])
        for a, b in combinations(queens, 2)
    )


def test_attacks_equal_a_naive_count() -> None:
    random = Random(0)
    for _ in range(200):
        columns = tuple(random.randrange(8) for _ in range(8))
        assert attacking_pairs(columns) == naive_pairs(columns)
    assert [attackers(FOUR.columns, 1, column) for column in range(4)] == [3, 2, 2, 0]
    assert sum(not attacking_pairs(columns) for columns in permutations(range(8))) == 92


@pytest.mark.parametrize("size", [4, 5, 8])
def test_tasks_are_crowded_and_can_be_solved_one_queen_a_turn(size: int) -> None:
    solutions = [each for each in permutations(range(size)) if not naive_pairs(each)]
    for number in range(30):
        position = EIGHT_QUEENS_TASKS.instance(
            EightQueens(size=size), 0, number, "eval" if number % 2 else "train"
        )
        assert naive_pairs(position.columns) >= 2
        moves = min(sum(a != b for a, b in zip(position.columns, goal, strict=True)) for goal in solutions)
        assert moves <= EightQueens().max_turns if size < 8 else moves <= 8


def test_a_square_earns_the_attacked_pairs_that_it_saves() -> None:
    # three pairs attack; r2 to c4 leaves one, (3, 4): potential -1 to -1/3; 0.99 * -1/3 + 1 - 0.01
    assert attacking_pairs((0, 3, 1, 2)) == 1
    assert turn(started(), "r2", "c4") == pytest.approx((0.66, 0.0))
    # r1 to c2: three in the column, and (3, 4): four pairs; 0.99 * -4/3 + 1 - 0.01
    assert attacking_pairs((1, 1, 1, 2)) == 4
    assert turn(started(), "r1", "c2") == pytest.approx((-0.33, 0.0))


def test_the_planner_is_scored_by_the_best_move_in_its_row() -> None:
    assert started().act("planner", "r2").local_reward == pytest.approx(0.99 * -1 / 3 + 1)
    # r1: its queen is attacked once, and so it would be at best elsewhere (c4, by r3)
    assert started().act("planner", "r1").local_reward == pytest.approx(0.99 * -1 + 1)


def test_bad_answers_cost_a_tenth_and_move_nothing() -> None:
    for row in ("", "r5", "r0", "c1", "r1 r2", "2"):
        environment = started()
        assert environment.act("planner", row).local_reward == pytest.approx(-0.1), row
        assert environment.observe("executor") == "no row"
        assert environment.act("executor", "c1").local_reward == pytest.approx(-0.1), row
        assert environment.columns == FOUR.columns
    for column in ("", "c5", "c2", "r3", "c1 c3", "1"):
        environment = started()
        assert turn(environment, "r2", column) == pytest.approx((-0.1, 0.0)), column
        assert (environment.columns, environment.turns) == (FOUR.columns, 1)


def test_solving_it_pays_the_team_and_turns_run_out() -> None:
    # . Q . . / . . . Q / Q . . . / . . Q .
    environment = started()
    assert turn(environment, "r2", "c4")[1] == 0.0
    assert turn(environment, "r3", "c1")[1] == 0.0
    assert turn(environment, "r1", "c2")[1] == 1.0
    assert (environment.columns, environment.outcome) == ((1, 3, 0, 2), "solved in 3 turns")
    late = started(max_turns=1, fail_reward=-1.0)
    assert turn(late, "r2", "c4")[1] == -1.0
    assert (late.done, late.success, late.outcome) == (True, False, "turns used up, 1 pair attack")


def test_each_role_sees_its_own_part() -> None:
    environment = started()
    assert environment.observe("planner") == "r1 c1 1 ; r2 c2 2 ; r3 c2 2 ; r4 c3 1 ; last none"
    environment.act("planner", "r2")
    assert environment.observe("executor") == "c1 3 c2 2 c3 2 c4 0 ; now c2"
    environment.act("executor", "c4")
    assert environment.observe("planner") == "r1 c1 0 ; r2 c4 0 ; r3 c2 1 ; r4 c3 1 ; last r2"
    assert environment.observe("executor") == "no row"


def test_the_board_marks_queens_that_are_attacked() -> None:
    environment = started()
    turn(environment, "r2", "c4")
    assert environment.board()["cells"] == [
        [0, 0, "queen"],
        [1, 3, "queen"],
        [2, 1, "attacked"],
        [3, 2, "attacked"],
    ]


@pytest.mark.parametrize("config", [EightQueens(), EightQueens(size=8, max_turns=12)])
def test_any_play_keeps_to_the_vocabulary_and_ends(config: EightQueens) -> None:
    check_splits(EIGHT_QUEENS_TASKS, config)
    check_play(config, {"planner": ["r1", "r3", "r4", "r9", "r2"], "executor": ["c1", "c4", "c2", "", "c3"]})


def test_demonstrations_know_half_of_it() -> None:
    pairs = check_demonstrations(EightQueens())
    attacked, repeated, best = [], [], []
    for seen, said in pairs[::2]:
        *queens, last = seen.split(" ; ")
        attacked.append(any(queen.startswith(f"{said} ") and not queen.endswith(" 0") for queen in queens))
        repeated.append(last == f"last {said}")
    for seen, said in pairs[1::2]:
        words = seen.split(" ; now")[0].split()
        counts = dict(zip(words[::2], words[1::2], strict=True))
        counts.pop(seen.split(" ; now ")[1])
        best.append(counts.get(said) == min(counts.values()))
    assert sum(attacked) / len(attacked) > 0.8
    assert sum(repeated) / len(repeated) < NOISE
    assert WELL_MOVED - NOISE < sum(best) / len(best) < 0.85
