"""What a terminal shows of a run: the bar, the lines, a phase that takes long."""

import io

import pytest
from rich.console import Console

from training_core.config.files import load_config
from training_core.config.marl import MarlConfig
from workers.driver.display import Bar, Lines, evaluation_line, iteration_line, summary_lines
from workers.driver.run_events import SlowPhases

RETURNS = {
    "eval/return": 125.0,
    "eval/return_std": 0.0,
    "eval_sampled/return": 124.5,
    "eval_sampled/length": 25.0,
}


def test_an_update_line_is_printed_after_the_first_update() -> None:
    config = load_config("spread_toy")
    assert isinstance(config, MarlConfig)
    resumed = list(summary_lines(config, 50, RETURNS))
    assert len(resumed) == 1 and "greedy return=125.00" in resumed[0]
    update = {"actor_loss": -0.25, "value_loss": 0.5, "kl": 0.01}
    learnt = {f"policy/agents/{name}": value for name, value in update.items()}
    first, second = summary_lines(config, 51, RETURNS | learnt)
    assert first.startswith("[toy_simple_spread | mappo | Iter 51]")
    assert "KL=0.0100" in second and second.endswith("Vloss=0.500 Aloss=-0.250")


def test_a_phase_is_slow_against_its_own_median() -> None:
    phases = SlowPhases()
    assert [phases.line(3, "rollout", seconds) for seconds in (40.0, 2.0, 2.0, 3.0, 2.0)] == [""] * 5, (
        "too few to compare"
    )
    assert phases.line(6, "update", 40.0) == ""
    assert phases.line(6, "rollout", 5.0) == ""
    assert phases.line(7, "rollout", 9.5) == "slow rollout in iteration 7: 9.5 s, its median is 2.5 s"
    assert phases.line(8, "sync", 0.01) == ""
    for _ in range(5):
        phases.line(8, "sync", 0.01)
    assert phases.line(9, "sync", 0.9) == "", "less than a second does not matter"


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
    assert capsys.readouterr().out.splitlines() == ["base model, 50%: warm start", "[not markup]"]


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
