"""Each setting of an environment changes what is seen or paid in play; what is reported as unused is never asked for."""

from functools import cache
from itertools import islice
from random import Random
from typing import Any

import pytest

from training_core.config.base import Section
from training_core.llm.environments.arithmetic import Arithmetic
from training_core.llm.environments.blocksworld import Blocksworld
from training_core.llm.environments.eight_queens import EightQueens
from training_core.llm.environments.plan_path.game import PlanPath, PlanPathSingle, PlanPathTrio
from training_core.llm.environments.registry import make_environment, warm_start_of
from training_core.llm.environments.sokoban import Sokoban
from training_core.llm.environments.sudoku import Sudoku

pytestmark = pytest.mark.extended

SMALL: dict[str, Section] = {
    "plan_path": PlanPath(size=3, max_turns=3, moves_per_turn=2, wall_share=0.2),
    "plan_path_single": PlanPathSingle(size=3, max_turns=3, moves_per_turn=2, wall_share=0.2),
    "plan_path_trio": PlanPathTrio(size=3, max_turns=3, moves_per_turn=2, wall_share=0.2),
    "sudoku": Sudoku(size=4, holes=2, max_turns=3),
    "sokoban": Sokoban(size=6, boxes=2, max_turns=8, moves_per_turn=6, wall_share=0.0),
    "eight_queens": EightQueens(size=4, max_turns=3),
    "blocksworld": Blocksworld(blocks=2, max_turns=3),
    "arithmetic": Arithmetic(terms=2, largest=3, max_turns=3, operators=("+", "-", "/")),
}
"""So small that chance solves some tasks and fails in others."""
OTHERS: dict[str, Any] = {
    "operators": ("+",),
    "fractions": True,
    "turn_discount": 0.5,
    "shaping_discount": 0.5,
    "wording": "sentences",
}
CASES = [
    (name, field)
    for name, section in SMALL.items()
    for field in type(section).model_fields
    if field
    not in ("type", "proposer")  # without a role of its own, nobody would decide: see test_wording.py
]
TASKS, TRIES = 24, 12


def other(section: Section, field: str) -> Any:
    """Another value that is as valid."""
    now = getattr(section, field)
    if field in OTHERS:
        return OTHERS[field]
    if isinstance(now, int):
        return 6 if (section.__class__, field) == (Sudoku, "size") else now + 1
    return (
        0.45
        if field == "wall_share" and isinstance(section, PlanPath | PlanPathSingle | PlanPathTrio)
        else (0.3 if field == "wall_share" else now + 0.37)
    )


def played(section: Section) -> list[Any]:
    """What roles see, and what all answers that are tried on copies earn; the one that earns most is carried on."""
    kind = str(getattr(section, "type"))  # noqa: B009  every environment has one
    said = list(
        dict.fromkeys(text for _, text in islice(warm_start_of(kind).demonstrations(section, 0), 300))
    )
    random, seen = Random(0), []
    for task in range(TASKS):
        environment = make_environment(section, 0)
        environment.reset(task, "train")
        while not environment.done:
            for role in environment.roles:
                seen.append(environment.observe(role))
                copies = [(environment.copy(), random.choice(said)) for _ in range(TRIES)]
                results = [copy.act(role, text) for copy, text in copies]
                seen += [(result.local_reward, result.team_reward) for result in results]
                best = max(
                    range(TRIES), key=lambda place: results[place].local_reward + results[place].team_reward
                )
                environment = copies[best][0]
                if environment.done:
                    break
    return seen


@cache
def standard(name: str) -> list[Any]:
    return played(SMALL[name])


@pytest.mark.parametrize(("name", "field"), CASES, ids=str)
def test_a_setting_of_an_environment_changes_its_play(name: str, field: str) -> None:
    section = SMALL[name]
    changed = type(section).model_validate(section.model_dump() | {field: other(section, field)})
    assert played(changed) != standard(name)


@pytest.mark.parametrize("name", ["plan_path", "sokoban", "eight_queens"])
def test_without_shaping_its_discount_changes_nothing(name: str) -> None:
    section = SMALL[name]
    flat = section.model_dump() | {"shaping": 0.0}
    one, two = (type(section).model_validate(flat | {"shaping_discount": value}) for value in (0.99, 0.5))
    assert played(one) == played(two)
