"""What boards may hold, and that the environments' own boards are such."""

from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from tests.end_to_end.boards import CHASE, FIELD, LINES, PILES, PLANE, QUEENS, SOKOBAN, SUDOKU
from training_core.boards import Board
from training_core.config.marl import MarlConfig
from training_core.llm.environments.arithmetic import Arithmetic
from training_core.llm.environments.registry import make_environment
from training_core.marl.environments.config import SimpleForaging, SimpleTag
from training_core.marl.trainer import MarlTrainer

BOARD: TypeAdapter[Any] = TypeAdapter(Board)


@pytest.mark.parametrize("board", [*SOKOBAN, *QUEENS, *SUDOKU, *PILES, *PLANE, *LINES, *CHASE, *FIELD])
def test_pictures_of_the_tests_are_boards(board: dict[str, Any]) -> None:
    BOARD.validate_python(board)


@pytest.mark.parametrize("environment", [SimpleTag(max_cycles=3), SimpleForaging(max_cycles=3)])
def test_small_networks_episodes_have_boards_that_say_whose_side_agents_are_on(environment: Any) -> None:
    sides = environment.roles
    tree = {
        "team": {"roles": {side: {"policy": side} for side in sides}},
        "policies": {side: {} for side in sides},
        "environment": environment.model_dump(),
        "rollout": {"environments": 2, "steps": 3},
    }
    trainer = MarlTrainer(MarlConfig.model_validate(tree))
    (story,) = trainer.evaluate(True, 1, recorded=1).recordings
    trainer.close()
    for picture in [*(moment.board for moment in story.recorded_steps), story.final_board]:
        assert BOARD.validate_python(picture).roles == story.roles


def test_arithmetic_says_line_by_line_what_was_asked_and_answered() -> None:
    environment = make_environment(Arithmetic(max_turns=2), 0)
    environment.reset(0, "train")
    environment.act("tool", "1 + 1")
    environment.act("reasoner", "no idea")
    environment.act("tool", environment.title)
    found = BOARD.validate_python(environment.board())
    assert [(line.label, line.state) for line in found.lines] == [
        ("problem", ""),
        ("answer", "bad"),
        ("tool", "good"),
    ]


@pytest.mark.parametrize(
    ("board", "field"),
    [
        ({"kind": "hexagons"}, "kind"),
        ({"kind": "grid", "rows": 0, "columns": 2, "cells": []}, "rows"),
        ({"kind": "grid", "rows": 2, "columns": 2, "cells": [[0, -1, "wall"]]}, "cells"),
        (SUDOKU[0] | {"cells": [[0, 0, 5, "guessed"]]}, "cells"),
        (PILES[0] | {"goal": "abc"}, "goal"),
        (PLANE[0] | {"bounds": [0, 0, float("nan"), 1]}, "bounds"),
        (PLANE[0] | {"entities": [{"name": "a", "kind": "agent", "x": 0, "y": 0, "radius": 0}]}, "radius"),
    ],
)
def test_what_is_no_board_is_told_by_its_field(board: dict[str, Any], field: str) -> None:
    with pytest.raises(ValidationError, match=field):
        BOARD.validate_python(board)
