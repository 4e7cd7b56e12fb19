"""Sokoban: levels solved by a solver of the test's own, rewards by hand, what each role sees, demonstrations."""

from collections import Counter, deque
from collections.abc import Iterator

import pytest
from pydantic import ValidationError

from tests.training_core.llm.environments.puzzles import check_demonstrations, check_play, check_splits
from training_core.llm.environments.registry import ENVIRONMENTS
from training_core.llm.environments.sokoban import (
    COMPASS,
    MOVES,
    SOKOBAN_TASKS,
    Cell,
    Level,
    Sokoban,
    SokobanEnvironment,
    SokobanSingle,
    moves_left,
    pushes_left,
)

# # # # # # #      the box has to go two to the right; the player stands below it
# . . . . #        (columns 1 to 4, rows 1 to 4 are inside the border)
# . b . G #
# . P X . #        X: a wall
# . . . . #
LEVEL = Level(6, ((3, 3),), ((2, 4),), ((2, 2),), (3, 2))
Position = tuple[Cell, frozenset[Cell]]


def started(level: Level = LEVEL, **settings: float) -> SokobanEnvironment:
    """An environment on a given level."""
    environment = SokobanEnvironment(Sokoban(**settings), seed=0)  # type: ignore[arg-type]
    environment.start(level, "train-0")
    return environment


def moves(environment: SokobanEnvironment, answer: str) -> tuple[float, float]:
    """Local and team reward of the executor's answer."""
    result = environment.act("executor", answer)
    return result.local_reward, result.team_reward


def solve(level: Level) -> list[str] | None:
    """A shortest solution by breadth-first search over player and boxes together: nothing like the generator."""
    blocked = set(level.walls)

    def after(position: Position) -> Iterator[tuple[str, Position]]:
        (row, column), boxes = position
        for word, (down, right) in MOVES.items():
            player, beyond = (row + down, column + right), (row + 2 * down, column + 2 * right)
            if not _inside(player, level.size) or player in blocked:
                continue
            if player not in boxes:
                yield word, (player, boxes)
            elif _inside(beyond, level.size) and beyond not in blocked and beyond not in boxes:
                yield word, (player, boxes - {player} | {beyond})

    start = (level.player, frozenset(level.boxes))
    ways: dict[Position, list[str]] = {start: []}
    queue = deque([start])
    while queue:
        position = queue.popleft()
        if position[1] == set(level.goals):
            return ways[position]
        for word, following in after(position):
            if following not in ways:
                ways[following] = [*ways[position], word]
                queue.append(following)
    return None


def _inside(cell: Cell, size: int) -> bool:
    return 1 <= cell[0] <= size - 2 and 1 <= cell[1] <= size - 2


@pytest.mark.parametrize(
    ("config", "count"),
    [
        (Sokoban(), 60),
        (Sokoban(wall_share=0.25), 40),
        (Sokoban(boxes=2), 12),
        (Sokoban(size=7, boxes=2, wall_share=0.12), 4),
    ],
)
def test_every_level_can_be_solved_and_playing_the_solution_wins(config: Sokoban, count: int) -> None:
    for number in range(count):
        level = SOKOBAN_TASKS.instance(config, 0, number, "eval" if number % 2 else "train")
        assert len(level.walls) == round(config.wall_share * (config.size - 2) ** 2)
        assert not set(level.boxes) & set(level.goals) and level.player not in level.boxes
        way = solve(level)
        assert way is not None
        if config.boxes == 1:
            assert moves_left(level)[level.player, level.boxes[0]] == len(way)
        environment = SokobanEnvironment(config, 0)
        environment.start(level, "eval-0")
        for first in range(0, len(way), config.moves_per_turn):
            environment.turns = 0
            environment.act("executor", " ".join(way[first : first + config.moves_per_turn]))
        assert environment.success


def test_the_solver_of_the_test_knows_what_cannot_be_solved() -> None:
    cornered = Level(6, (), ((2, 2),), ((1, 1),), (4, 4))
    assert solve(cornered) is None and (1, 1) not in pushes_left(cornered)
    along_the_border = Level(6, (), ((2, 2),), ((1, 2),), (4, 4))
    assert solve(along_the_border) is None and (1, 2) not in pushes_left(along_the_border)


def test_remaining_pushes_equal_the_solvers_on_open_levels() -> None:
    """On an open grid the player can always walk round: pushes = least changes of place of the box in any solution."""
    level = Level(6, (), ((2, 3),), ((4, 2),), (3, 3))
    for box, pushes in pushes_left(level).items():
        way = solve(Level(6, (), ((2, 3),), (box,), (1, 1) if box != (1, 1) else (2, 1)))
        if way is None:
            assert box in ((1, 1), (1, 4), (4, 1), (4, 4)), box
        else:
            assert pushes == abs(box[0] - 2) + abs(box[1] - 3)
    assert (4, 2) not in pushes_left(level), "a box on the border line stays on it"


def test_too_many_boxes_are_refused_by_the_config() -> None:
    with pytest.raises(ValidationError, match="boxes: at most 2 on a grid of 5"):
        Sokoban(size=5, boxes=3)


def test_splits() -> None:
    check_splits(SOKOBAN_TASKS, Sokoban())


def test_a_push_towards_the_goal_earns_shaping_less_move_costs() -> None:
    # left, up, right: the third pushes; four moves were left, now one: 0.1 * (0.99 * -1 + 4) - 3 * 0.01
    environment = started()
    assert moves(environment, "left up right") == pytest.approx((0.301 - 0.03, 0.0))
    assert (environment.player, environment.boxes) == ((2, 2), ((2, 3),))


def test_winning_pays_the_team_ten_and_one_for_the_goal() -> None:
    environment = started()
    assert moves(environment, "left up right right up")[1] == pytest.approx(11.0)
    assert (environment.success, environment.done, environment.outcome) == (True, True, "solved in 1 turn")
    assert environment.player == (2, 3), "what was said after the last push is not done"


def test_leaving_a_goal_costs_the_team_half_a_point() -> None:
    two = Level(7, (), ((3, 3), (5, 5)), ((3, 3), (2, 2)), (3, 2))
    environment = started(two, boxes=2, size=7)
    assert moves(environment, "right")[1] == pytest.approx(-0.5)
    assert moves(environment, "up right right down left")[1] == pytest.approx(1.0)


def test_a_lost_box_ends_it_and_costs_five() -> None:
    environment = started()
    # pushed up to the border: no way leads it down again, and it counts as far away as at the start
    assert moves(environment, "up") == pytest.approx((0.1 * (0.99 * -4 + 4) - 0.01, -5.0))
    assert (environment.done, environment.success, environment.outcome) == (True, False, "a box is lost")


def test_turns_run_out() -> None:
    environment = started(max_turns=2)
    assert moves(environment, "left")[1] == 0.0
    assert moves(environment, "left")[1] == -5.0
    assert environment.outcome == "turns used up"


def test_walls_blocked_boxes_and_words_that_are_no_moves_cost_a_tenth() -> None:
    # nothing moved: four moves left as before, 0.1 * (0.99 * -4 + 4) = 0.004
    for answer in ("right", "", "east", "left up hop", "up up up up up up up", "down down left right 3"):
        environment = started()
        assert moves(environment, answer)[0] == pytest.approx(-0.1 + 0.004), answer
        assert environment.player == (3, 2)
        assert " ; last stuck ; " in environment.observe("executor")
    facing_the_wall = started(Level(6, ((2, 3),), ((2, 4),), ((2, 2),), (2, 1)))
    moves(facing_the_wall, "right")
    assert facing_the_wall.boxes == ((2, 2),), "a box does not go into a wall"
    in_a_row = started(Level(7, (), ((5, 5), (5, 4)), ((2, 2), (2, 3)), (2, 1)), size=7, boxes=2)
    moves(in_a_row, "right")
    assert in_a_row.boxes == ((2, 2), (2, 3)), "nor into another box"


def test_a_plan_is_scored_from_the_required_player_position() -> None:
    towards, away = started().act("planner", "east"), started().act("planner", "west")
    assert towards.local_reward == pytest.approx(0.1 * (0.99 * -1 + 2))
    # column 1 is the border line: the box could not leave it, one push more than from anywhere
    assert away.local_reward == pytest.approx(0.1 * (0.99 * -4 + 2))
    assert (towards.team_reward, towards.done) == (0.0, False)
    for answer in ("", "up", "2 east", "1", "east east", "1 1 east", "0 east"):
        environment = started()
        assert environment.act("planner", answer).local_reward == pytest.approx(-0.1), answer
        assert environment.observe("executor").endswith("plan none")
    blocked = started(Level(6, ((2, 3),), ((2, 4),), ((2, 2),), (2, 1)))
    assert blocked.act("planner", "east").local_reward == pytest.approx(-0.1)
    assert blocked.act("planner", "west").local_reward == pytest.approx(-0.1), "nobody can stand in the wall"


def test_a_plan_names_a_box_and_without_a_number_the_first_astray() -> None:
    two = Level(7, (), ((3, 3), (5, 5)), ((3, 3), (5, 3)), (3, 2))
    by_number, by_default = started(two, size=7, boxes=2), started(two, size=7, boxes=2)
    assert (
        by_number.act("planner", "2 east").local_reward == by_default.act("planner", "east").local_reward > 0
    )
    assert started(two, size=7, boxes=2).act("planner", "1 east").local_reward < 0


def test_the_shaping_terms_telescope() -> None:
    environment = started(
        shaping=1.0, shaping_discount=0.9, step_reward=0.0, blocked_reward=0.0, max_turns=20
    )
    answers = ["left up", "right", "left up", "down right", "right"]
    terms = [moves(environment, answer)[0] for answer in answers]
    assert environment.success
    # sum over t of 0.9^t * (0.9 * after - before) = 0.9^T * last potential - first: four moves were left, now none
    assert sum(0.9**t * term for t, term in enumerate(terms)) == pytest.approx(4.0)


def test_each_role_sees_its_own_part() -> None:
    environment = started()
    assert environment.observe("planner") == "box 1 goal 2 east ; north free south free west free east free"
    environment.act("planner", "east")
    assert (
        environment.observe("executor")
        == "box 1 1 up ; up box down free left free right wall ; last none ; plan east"
    )
    moves(environment, "left up right")
    assert (
        environment.observe("executor")
        == "box 1 1 right ; up free down free left free right box ; last right ; plan none"
    )
    elsewhere = Level(6, ((3, 3),), ((2, 3),), ((2, 2),), (3, 2))
    assert started(elsewhere).observe("executor") == started().observe("executor"), (
        "the goal is the planner's"
    )
    further = Level(6, ((3, 3),), ((2, 4),), ((2, 2),), (4, 4))
    assert started(further).observe("planner") == started().observe("planner"), (
        "where the player stands is not"
    )


@pytest.mark.parametrize("config", [Sokoban(), Sokoban(boxes=2, max_turns=4), Sokoban(size=9, boxes=3)])
def test_any_play_keeps_to_the_vocabulary_and_ends(config: Sokoban) -> None:
    plans = ["north", "east", "1 south", "nonsense"]
    check_play(
        config, {"planner": plans, "executor": ["left up", "right down right", "stay", "down down"]}, 10
    )


def test_demonstrations_know_most_plans_and_err_in_following_them() -> None:
    pairs = check_demonstrations(Sokoban())
    said = Counter(said for seen, said in pairs[::2] if "goal 2 east ;" in seen)
    total = sum(said.values())
    assert total > 20
    assert (said["east"] + said["west"]) / total > 0.85
    assert 0.7 < said["east"] / total < 0.97
    for seen, said_words in pairs[1::2]:
        assert seen.startswith("box 1 ") and set(said_words.split()) <= set(MOVES)
    assert set(COMPASS) >= set(said)
    check_demonstrations(Sokoban(boxes=2), 200)


def test_a_single_agent_sees_both_parts_and_moves() -> None:
    """The rewards are those of the executor's moves."""
    single = ENVIRONMENTS["sokoban_single"].make(SokobanSingle(), 0)
    single.start(LEVEL, "train-0")
    assert single.observe("player") == (
        "box 1 1 up ; box 1 goal 2 right ; up free down free left free right free ; "
        "up box down free left free right wall ; last none"
    )
    pair = started()
    for answer in ("left up", "east", "right right"):
        result = single.act("player", answer)
        assert (result.local_reward, result.team_reward) == moves(pair, answer)
    assert single.success and result.team_reward == 11.0
