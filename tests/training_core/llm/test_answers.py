"""What a text says after its thought."""

import pytest

from training_core.llm.answers import after_thought
from training_core.llm.environments.plan_path.game import PlanPath, PlanPathEnvironment
from training_core.llm.environments.sudoku import Sudoku, SudokuEnvironment


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("no thought", "no thought"),
        ("<think>a</think>b", "b"),
        ("a</think>b", "b"),
        ("<think>a</think>b<think>c</think>d", "d"),
        ("<think>cut off", ""),
        ("b<think>cut off", "b"),
        ("<thinking>a</thinking>\nb", "\nb"),
        ("[THINK]a[/THINK]b", "b"),
        ("a < think > b", "a < think > b"),
        ("", ""),
    ],
)
def test_the_answer_begins_where_the_last_thought_ends(text: str, said: str) -> None:
    assert after_thought(text) == said


@pytest.mark.parametrize(
    "made", [lambda: PlanPathEnvironment(PlanPath(), 0), lambda: SudokuEnvironment(Sudoku(), 0)]
)
def test_puzzles_read_what_follows_the_thought(made: object) -> None:
    plain, thinking = made(), made()  # type: ignore[operator]
    for environment in (plain, thinking):
        environment.reset(0, "train")
    for role, said in zip(plain.roles, ("right", "down"), strict=False):
        assert thinking.act(role, f"<think>left? up?</think>{said}") == plain.act(role, said)
