"""Blocksworld: moves left against a search, rewards by hand, what each role sees, demonstrations."""

from collections import deque
from collections.abc import Iterator

import pytest

from tests.training_core.llm.environments.puzzles import check_demonstrations, check_play, check_splits
from training_core.llm.environments.blocksworld import (
    BLOCKSWORLD_TASKS,
    NAMES,
    TABLE,
    Blocksworld,
    BlocksworldEnvironment,
    Piles,
    State,
    in_place,
    moves_left,
    piles,
)

# start:  c          goal:  a
#         a                 b
#         b   d             c   d
START: State = ("b", TABLE, "a", TABLE)
GOAL: State = ("b", "c", TABLE, TABLE)
TURNED = Piles(START, GOAL)


def started(instance: Piles = TURNED, **settings: float) -> BlocksworldEnvironment:
    """An environment on given piles."""
    environment = BlocksworldEnvironment(Blocksworld(blocks=len(instance.start), **settings), seed=0)  # type: ignore[arg-type]
    environment.start(instance, "train-0")
    return environment


def move(environment: BlocksworldEnvironment, answer: str) -> tuple[float, float]:
    """Local and team reward of the executor's answer."""
    result = environment.act("executor", answer)
    return result.local_reward, result.team_reward


def naive_moves(state: State) -> Iterator[State]:
    """Every state one move on."""
    for index, block in enumerate(NAMES[: len(state)]):
        for place in (*NAMES[: len(state)], TABLE):
            free = block not in state and (place == TABLE or place not in state)
            if free and place not in (block, state[index]):
                yield (*state[:index], place, *state[index + 1 :])


def distances(goal: State) -> dict[State, int]:
    """Fewest moves to the goal from every state (moves can be undone)."""
    found = {goal: 0}
    queue = deque([goal])
    while queue:
        state = queue.popleft()
        for following in naive_moves(state):
            if following not in found:
                found[following] = found[state] + 1
                queue.append(following)
    return found


def test_moves_left_are_enough_and_at_most_twice_the_fewest() -> None:
    fewest = distances(GOAL)
    assert len(fewest) == 73, "states of four blocks"
    for state, moves in fewest.items():
        assert moves <= moves_left(state, GOAL) <= 2 * moves, state
        if moves:
            assert any(moves_left(each, GOAL) == moves_left(state, GOAL) - 1 for each in naive_moves(state))


@pytest.mark.parametrize("blocks", [3, 4, 5])
def test_tasks_can_be_solved_in_the_turns(blocks: int) -> None:
    for number in range(30):
        task = BLOCKSWORLD_TASKS.instance(
            Blocksworld(blocks=blocks), 0, number, "eval" if number % 2 else "train"
        )
        for state in (task.start, task.goal):
            assert sorted(block for pile in piles(state) for block in pile) == list(NAMES[:blocks])
        assert (
            distances(task.goal)[task.start] <= moves_left(task.start, task.goal) <= Blocksworld().max_turns
        )
        assert moves_left(task.start, task.goal) >= 2


def test_a_useful_move_earns_its_share() -> None:
    # a, b and c are astray; a and c have to come down, then b and a up again: four moves left
    assert moves_left(START, GOAL) == 4
    assert not in_place(START, GOAL, "a"), "a stands on b, but b is not where it belongs"
    assert move(started(), "c table") == pytest.approx((0.99 * -3 / 4 + 1 - 0.01, 0.0))
    assert move(started(), "c d") == pytest.approx((0.99 * -1 + 1 - 0.01, 0.0)), (
        "no nearer: c must come down still"
    )
    assert move(started(), "d c") == pytest.approx((0.99 * -5 / 4 + 1 - 0.01, 0.0)), "d was in its place"


def test_what_is_not_possible_costs_a_tenth_and_moves_nothing() -> None:
    for answer in (
        "",
        "a table",
        "c a",
        "c b",
        "c c",
        "d table",
        "table c",
        "c",
        "c on d",
        "e table",
        "c d d",
    ):
        environment = started()
        assert move(environment, answer) == pytest.approx((-0.1, 0.0)), answer
        assert (environment.state, environment.turns) == (START, 1)


def test_a_plan_is_right_if_its_block_is_next() -> None:
    environment = started()
    # c belongs on the table: next; b on c: only when c is there; d is done; a does not belong on c
    assert environment.act("planner", "c table").local_reward == pytest.approx(0.99 * -3 / 4 + 1)
    for wrong in ("b c", "a b", "d table", "a c"):
        assert environment.act("planner", wrong).local_reward == pytest.approx(0.99 * -5 / 4 + 1), wrong
    for bad in ("", "c", "c c", "table c", "c on table", "x table"):
        assert environment.act("planner", bad).local_reward == pytest.approx(-0.1), bad
        assert environment.observe("executor").endswith("plan none")


def test_building_it_pays_the_team_and_turns_run_out() -> None:
    environment = started()
    for answer in ("c table", "a table", "b c"):
        assert move(environment, answer)[1] == 0.0
    assert move(environment, "a b")[1] == 1.0
    assert (environment.success, environment.outcome) == (True, "built in 4 turns")
    late = started(max_turns=2, fail_reward=-1.0)
    move(late, "c table")
    assert move(late, "a table")[1] == -1.0
    assert (late.done, late.success, late.outcome) == (True, False, "turns used up, 2 moves left")


def test_each_role_sees_its_own_part() -> None:
    environment = started()
    assert environment.observe("planner") == "c table open ; b c open ; a b open ; d table done"
    environment.act("planner", "c table")
    assert environment.observe("executor") == "pile b a c ; pile d ; plan c table"
    move(environment, "c table")
    assert environment.observe("planner") == "c table done ; b c open ; a b open ; d table done"
    assert environment.observe("executor") == "pile b a ; pile c ; pile d ; plan none"
    another_goal = started(Piles(START, ("c", TABLE, TABLE, "b")))
    assert another_goal.observe("executor") == started().observe("executor")


def test_the_board_shows_the_piles_and_the_goal() -> None:
    environment = started()
    assert environment.board() == {
        "kind": "piles",
        "piles": [["b", "a", "c"], ["d"]],
        "goal": [["c", "b", "a"], ["d"]],
        "placed": ["d"],
    }


@pytest.mark.parametrize(
    "config", [Blocksworld(), Blocksworld(blocks=3), Blocksworld(blocks=12, max_turns=20)]
)
def test_any_play_keeps_to_the_vocabulary_and_ends(config: Blocksworld) -> None:
    plans = ["a b", "b table", "c d", "nonsense", "d a"]
    check_splits(BLOCKSWORLD_TASKS, config)
    check_play(config, {"planner": plans, "executor": ["a table", "b c", "d a", "c table", "up"]})


def test_demonstrations_know_half_of_it() -> None:
    pairs = check_demonstrations(Blocksworld())
    next_up, possible = [], []
    for seen, said in pairs[::2]:
        lines = [line.split() for line in seen.split(" ; ")]
        done = {TABLE, *(block for block, _, state in lines if state == "done")}
        next_up.append(
            said in {f"{block} {on}" for block, on, state in lines if state == "open" and on in done}
        )
    for seen, said in pairs[1::2]:
        tops = [pile.split()[-1] for pile in seen.split(" ; plan")[0].split(" ; ")]
        block, place = said.split()
        possible.append(block in tops and place in (*tops, TABLE) and block != place)
    assert 0.4 < sum(next_up) / len(next_up) < 0.75
    assert sum(possible) / len(possible) > 0.75
