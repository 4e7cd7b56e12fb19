"""environment.wording = "sentences": what pretrained models are shown, and how their answers are read."""

from fractions import Fraction

import pytest

from training_core.config.files import load_config, parse_config
from training_core.errors import ConfigError
from training_core.llm.environments.arithmetic import TOOL, Arithmetic, ArithmeticEnvironment, Problem
from training_core.llm.environments.plan_path.game import (
    Grid,
    PlanPath,
    PlanPathEnvironment,
    PlanPathSingle,
    PlanPathSingleEnvironment,
    PlanPathTrio,
    PlanPathTrioEnvironment,
)

# S # .      the shortest walk from S to G: south, south, east, east
# . # .
# . . G
CORNER = Grid(3, frozenset({(0, 1), (1, 1)}), (0, 0), (2, 2))


def pair() -> PlanPathEnvironment:
    environment = PlanPathEnvironment(PlanPath(size=3, wording="sentences"), seed=0)
    environment.start(CORNER, "train-0")
    return environment


def test_planner_and_executor_read_english_and_both_speak_in_compass_words() -> None:
    environment = pair()
    assert environment.observe("planner") == "The goal is 2 steps east and 2 steps south."
    environment.act("planner", "Go south, then South!")
    assert environment.observe("executor") == "Walls: north, west, east. Plan: south south."
    assert environment.act("executor", "south south east").info == "walks down down right"
    assert environment.observe("planner") == "The goal is 1 step east."
    assert environment.observe("executor") == "Walls: north, south. Last move: east. Plan: none."
    environment.act("executor", "down")
    assert environment.observe("executor") == "Walls: north, south. Last move: east, then stuck. Plan: none."
    assert environment.act("executor", "I walk east.").success


@pytest.mark.parametrize("answer", ["", "down", "northeast", "I do not know", "<think>south</think>"])
def test_an_answer_without_a_direction_is_none(answer: str) -> None:
    environment = pair()
    assert (environment.act("planner", answer).info, environment.plan) == ("no plan", ())
    result = environment.act("executor", answer)
    assert (result.local_reward, environment.cell) == (environment.config.blocked_reward, (0, 0))


def test_only_the_first_words_count() -> None:
    environment = pair()
    environment.act("planner", "south, south, east and east again")
    assert environment.plan == ("south", "south", "east"), "moves_per_turn = 3"


def test_the_walker_that_is_alone_sees_everything() -> None:
    environment = PlanPathSingleEnvironment(PlanPathSingle(size=3, wording="sentences"), seed=0)
    environment.start(CORNER, "train-0")
    assert (
        environment.observe("walker")
        == "The goal is 2 steps east and 2 steps south. Walls: north, west, east."
    )


@pytest.mark.parametrize(
    ("said", "heard", "share"),
    [
        ("north, west, east", "north, west, east", 1.0),
        ("None.", "none", -0.5),
        ("East and east", "east", 0.0),
    ],
)
def test_the_scout_names_walls(said: str, heard: str, share: float) -> None:
    environment = PlanPathTrioEnvironment(PlanPathTrio(size=3, wording="sentences"), seed=0)
    environment.start(CORNER, "train-0")
    assert environment.observe("scout") == "Walls: north, west, east."
    assert environment.act("scout", said).local_reward == pytest.approx(0.2 * share)
    assert environment.observe("executor") == f"Plan: none. Walls: {heard}."
    assert environment.act("scout", "no idea").local_reward == -0.2


@pytest.mark.parametrize("preset", ["plan_path_duo", "arithmetic"])
def test_the_tiny_model_reads_no_sentences(preset: str) -> None:
    with pytest.raises(ConfigError, match=r"\"tiny\" knows single words.*set the wording to"):
        load_config(preset, {"environment.wording": "sentences"})
    roles = load_config(preset, {}).policies
    models = {f"policies.{name}.model": "smollm2" for name in roles}
    assert load_config(preset, {"environment.wording": "sentences", **models})


@pytest.mark.parametrize(
    ("names", "proposer", "told"),
    [
        (("solver",), "solver", "add a role that decides"),
        (("tool",), "", "add a role that decides"),
        (("tool", "solver"), "solver", "add a role that decides"),
        (("tool", "reasoner"), "tool", "other than tool"),
        (("tool", "reasoner"), "solver", "roles are tool, reasoner"),
    ],
)
def test_a_team_in_which_nobody_decides_is_refused(names: tuple[str, ...], proposer: str, told: str) -> None:
    tree = {
        "team": {"roles": {name: {"policy": "a"} for name in names}},
        "policies": {"a": {}},
        "environment": {"type": "arithmetic", "proposer": proposer},
    }
    with pytest.raises(ConfigError, match=told):
        parse_config(tree)


def test_without_a_proposer_a_role_of_any_name_decides() -> None:
    environment = ArithmeticEnvironment(Arithmetic(wording="sentences"), seed=0)
    environment.start(Problem("7 + 5", Fraction(12)), "train-0")
    assert environment.act("solver", "12").success


def sums(**settings: int) -> ArithmeticEnvironment:
    section = Arithmetic.model_validate(
        {"wording": "sentences", "proposer": "solver", "max_turns": 2} | settings
    )
    environment = ArithmeticEnvironment(section, seed=0)
    environment.start(Problem("7 + 5", Fraction(12)), "train-0")
    return environment


def test_a_solver_proposes_and_a_checker_decides() -> None:
    environment = sums()
    assert environment.observe("solver") == environment.observe("checker") == "What is 7 + 5?"
    result = environment.act("solver", "It is 13.")
    assert (result.local_reward, result.team_reward, result.done) == (0.0, 0.0, False)
    assert environment.observe("checker") == "What is 7 + 5? The solver says 13."
    assert environment.act("checker", "14").info == "wrong"
    assert (
        environment.observe("solver") == environment.observe("checker") == "What is 7 + 5? Not correct: 14."
    )
    assert environment.act("solver", "7 + 5 = 12").local_reward == 1.0
    result = environment.act("checker", "Yes, 12")
    assert (result.team_reward, result.success) == (1.0, True)


def test_what_is_no_number_costs_and_is_shown_as_nothing() -> None:
    environment = sums()
    assert environment.act("solver", "I cannot say").local_reward == environment.config.format_reward
    assert environment.observe("checker") == "What is 7 + 5? The solver says nothing."
    assert environment.act("checker", "?").local_reward == environment.config.format_reward


@pytest.mark.parametrize("said", ["7 + 5", "Sure: 7 + 5.", "7 + 5 = 12", "(7 + 5)"])
def test_the_tool_finds_the_expression(said: str) -> None:
    environment = sums()
    assert environment.observe(TOOL) == "Write 7 + 5 as an expression."
    assert environment.act(TOOL, said).local_reward == 1.0
    assert environment.observe("reasoner") == "What is 7 + 5? The tool says 12."


def test_in_words_a_proposal_stands_in_a_box() -> None:
    environment = ArithmeticEnvironment(Arithmetic(proposer="solver"), seed=0)
    environment.start(Problem("7 + 5", Fraction(12)), "train-0")
    assert environment.act("solver", "12").local_reward == environment.config.format_reward
    assert environment.act("solver", r"\boxed{ 12 }").local_reward == 1.0
    assert environment.observe("checker") == "What is 7 plus 5 ? The solver says 12 ."
