"""What a person at a terminal sees."""

import io

import pytest
from rich.console import Console

from workers.driver.display import Bar, Lines, evaluation_line, iteration_line

VALUES = {"train/success": 0.5, "train/return": 1.25, "time/iteration": 2.0}


def test_the_bar_shows_iteration_success_return_and_time_left() -> None:
    screen = io.StringIO()
    with Bar(10, console=Console(file=screen, force_terminal=True, width=120)) as bar:
        bar.loading(0.5, "warm start: step 150 of 300")
        assert bar._progress.tasks[1].completed == 50
        bar.loading(1.0, "base model ready")
        assert len(bar._progress.tasks) == 1, "the bar of the base model is gone when it is made"
        bar.iteration(3, VALUES)
        bar.note(evaluation_line(3, {"eval/success": 0.75, "eval/return": 2.0}))
    shown = screen.getvalue()
    assert "3/10" in shown
    assert "success 0.50, return 1.250" in shown
    assert "left" in shown
    assert "evaluation after iteration 3, greedy: success 0.75, return 2.000" in shown


def test_lines_for_a_jobs_log(capsys: pytest.CaptureFixture[str]) -> None:
    with Lines() as lines:
        lines.iteration(3, VALUES)
        lines.loading(0.5, "warm start")
        lines.note("[not markup]")
    assert capsys.readouterr().out.splitlines() == [
        "base model, 50%: warm start",
        "[not markup]",
    ]


def test_lines_of_iterations_and_evaluations() -> None:
    nothing = {"train/success": float("nan"), "train/return": float("nan"), "time/iteration": 1.0}
    assert iteration_line(3, VALUES) == "iteration 3: success 0.50, return 1.250, 2.00 s"
    assert iteration_line(1, nothing) == "iteration 1: no episode was completed, 1.00 s"
    assert iteration_line(2, {"time/iteration": 1.0}) == "iteration 2: no episode was completed, 1.00 s"
    assert (
        iteration_line(3, VALUES, shaped=True) == "iteration 3: success 0.50, return (shaped) 1.250, 2.00 s"
    )
    sampled = evaluation_line(3, {"eval_sampled/success": 0.25})
    assert sampled == "evaluation after iteration 3, sampled: success 0.25"
