"""Presets that learn end without a finding: whole runs, judged as the server judges them, iteration by iteration."""

from pathlib import Path

import pytest

from tests.benchmarks.local_runs import train
from tests.benchmarks.preset_health import courses, read_curves
from training_core.config.files import load_config
from training_core.config.health import Health
from webapp.health.services import Level

pytestmark = pytest.mark.extended
LONG = (
    "plan_path_duo", "plan_path_single", "plan_path_ppo", "arithmetic", "sudoku", "coding", "recall_mappo_gru", "recall_ippo_gru",
    "plan_path", "plan_path_trio", "sokoban", "blocksworld", "eight_queens", "multi_turn_math",
)  # fmt: skip


@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    "preset", ["spread_toy", *(pytest.param(preset, marks=pytest.mark.soak) for preset in LONG)]
)
def test_a_preset_that_learns_ends_without_a_finding(preset: str, tmp_path: Path) -> None:
    train(preset, tmp_path, tmp_path / "run", ["run.seed=1"])
    curves = read_curves(tmp_path / "run")
    findings = courses(curves, load_config(preset).health)
    assert curves and [str(finding) for finding in findings if finding.open_at_end] == []


def test_the_course_of_a_finding_names_its_steps_and_level() -> None:
    kl = {step: 0.1 if step < 10 or step > 30 else 5.0 for step in range(60)}
    (finding,) = courses({"policy/walker/kl": kl}, Health())
    assert (finding.rule, finding.key, finding.level) == ("kl_blow_up", "policy/walker/kl", Level.CRITICAL)
    assert finding.steps[0] in range(10, 16) and finding.steps[-1] in range(30, 45)
    assert not finding.open_at_end and str(finding).startswith("kl_blow_up policy/walker/kl: critical from")
