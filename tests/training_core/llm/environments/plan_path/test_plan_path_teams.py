"""plan_path by one agent and by three: what each sees, what its words do, what it is paid; and the demonstrations of base models."""

from collections import Counter
from itertools import islice

import pytest

from training_core.config.files import load_config
from training_core.llm.environments.plan_path.demonstrations import (
    NOISE,
    plan_path_demonstrations,
    plan_path_trio_demonstrations,
)
from training_core.llm.environments.plan_path.game import (
    PLAN_PATH_TASKS,
    Grid,
    PlanPath,
    PlanPathSingle,
    PlanPathSingleEnvironment,
    PlanPathTrio,
    PlanPathTrioEnvironment,
)
from training_core.llm.environments.plan_path.wording import COMPASS, MOVES
from training_core.llm.environments.registry import ENVIRONMENTS

CONFIG = PlanPath()
PAIRS = list(islice(plan_path_demonstrations(CONFIG, 0), 12000))


def test_roles_take_turns_and_speak_their_own_words() -> None:
    for place, (seen, said) in enumerate(PAIRS):
        assert seen.startswith("up ") if place % 2 else seen.startswith("goal ")
        assert set(said.split()) <= (set(MOVES) if place % 2 else set(COMPASS))
        assert 1 <= len(said.split()) <= CONFIG.moves_per_turn


def test_the_planner_knows_the_axis_but_not_the_way() -> None:
    said = Counter(said.split()[0] for seen, said in PAIRS[::2] if seen.split()[2:] == ["east"])
    total = sum(said.values())
    # NOISE of the words are any of four, the others east or west by a coin
    assert said["east"] / total == pytest.approx(0.5 - NOISE / 4, abs=0.06)
    assert said["west"] / total == pytest.approx(0.5 - NOISE / 4, abs=0.06)
    assert said["north"] / total == pytest.approx(NOISE / 4, abs=0.05)


def test_the_executor_steps_round_a_wall_without_going_back() -> None:
    """Whichever way north is taken to be, one of up and down is blocked here: often a step aside comes first."""
    said = Counter(
        said.split()[0]
        for seen, said in PAIRS[1::2]
        if "up wall down free left free right free" in seen and seen.split("plan ")[1].startswith("north")
    )
    total = sum(said.values())
    assert total > 30
    assert (said["left"] + said["right"]) / total > 0.4
    assert said["down"] / total > 0.08
    assert said["up"] / total < 0.2


GRID = Grid(5, frozenset({(1, 0), (4, 4)}), start=(2, 0), goal=(1, 2))
"""From (2, 0) the goal lies 2 east and 1 north; up is a wall, left is off the grid."""


def trio() -> PlanPathTrioEnvironment:
    environment = PlanPathTrioEnvironment(PlanPathTrio(), seed=0)
    environment.reset(0, "train")
    environment.start(GRID, "by hand")
    return environment


def single() -> PlanPathSingleEnvironment:
    environment = PlanPathSingleEnvironment(PlanPathSingle(), seed=0)
    environment.start(GRID, "by hand")
    return environment


def test_the_walker_sees_what_planner_and_executor_see_together() -> None:
    assert (
        single().observe("walker")
        == "goal 2 east 1 north ; up wall down free left wall right free ; last none"
    )


def test_the_walker_walks_and_is_paid_as_the_executor_is() -> None:
    environment = single()
    step = environment.act("walker", "right right up")
    # three moves of 0.01, and shaping 0.99 x after - before, in walks of 3: (-2, -1, 0) after (-3, -2, -1)
    shaped = (0.99 * -2 + 3 + 0.99 * -1 + 2 + 0.99 * 0 + 1) / 3
    assert step.local_reward == pytest.approx(-0.03 + shaped)
    assert (step.team_reward, step.done, step.success) == (1.5, True, True)


def test_each_of_the_trio_sees_its_part_alone() -> None:
    environment = trio()
    assert environment.observe("planner") == "goal 2 east 1 north"
    assert environment.observe("scout") == "up wall down free left wall right free"
    assert environment.observe("executor") == "last none ; plan none ; wall none"
    environment.act("planner", "east east north")
    environment.act("scout", "up left")
    assert environment.observe("executor") == "last none ; plan east east north ; wall up left"
    environment.act("executor", "right")
    assert environment.observe("executor") == "last right ; plan none ; wall none"


@pytest.mark.parametrize(
    ("report", "reward"),
    [
        ("up left", 0.2),
        ("left up", 0.2),
        ("up", 0.1),  # three sides right, one wrong: (3 - 1) / 4 of 0.2
        ("none", 0.0),
        ("down right", -0.2),
        ("up up", -0.2),
        ("east", -0.2),
        ("", -0.2),
    ],
)
def test_a_report_pays_by_the_sides_that_are_right(report: str, reward: float) -> None:
    step = trio().act("scout", report)
    assert step.local_reward == pytest.approx(reward)
    assert (step.team_reward, step.done) == (0.0, False)


@pytest.mark.parametrize("tag", ["plan_path_single", "plan_path_trio"])
def test_tasks_are_those_of_plan_path(tag: str) -> None:
    config = load_config("plan_path_duo").environment
    for split in ("train", "eval"):
        environment = ENVIRONMENTS[tag].make(
            {"plan_path_single": PlanPathSingle, "plan_path_trio": PlanPathTrio}[tag](), 3
        )
        environment.reset(7, split)  # type: ignore[arg-type]
        assert environment.grid == PLAN_PATH_TASKS.instance(config, 3, 7, split)  # type: ignore[attr-defined, arg-type]


def test_the_scout_is_shown_each_side_right_three_times_in_four() -> None:
    """With a fifth of the words replaced by any of four: 0.75 x 0.8 + what the replaced ones hit."""
    pairs = list(islice(plan_path_trio_demonstrations(PlanPathTrio(), 0), 9000))
    assert all(
        seen.startswith(start) for (seen, _), start in zip(pairs, ("goal", "up", "last") * 3000, strict=True)
    )
    scout = pairs[1::3]
    walled = [("up wall" in seen, "up" in said.split()) for seen, said in scout]
    told = [said for wall, said in walled if wall]
    untold = [said for wall, said in walled if not wall]
    assert 0.6 < sum(told) / len(told) < 0.8
    assert 0.2 < sum(untold) / len(untold) < 0.4
