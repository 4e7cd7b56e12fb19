"""Presets that learn end without a finding: whole runs, judged as the server judges them, iteration by iteration."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from training_core.config.files import load_config
from webapp.health.inputs import HealthInputs, SeriesTail
from webapp.health.levels import Level, level_now
from webapp.health.rules import judge

pytestmark = pytest.mark.slow


def curves_of(folder: Path) -> dict[str, dict[int, float]]:
    """Every metric of a run's events, value by step."""
    found: dict[str, dict[int, float]] = {}
    for path in sorted(folder.rglob("*.jsonl")):
        for line in path.read_text().splitlines():
            event = json.loads(line)
            if event.get("type") == "metrics":
                for key, value in event["values"].items():
                    found.setdefault(key, {})[event["step"]] = float(value)
    return found


def observed(curves: dict[str, dict[int, float]], until: int) -> HealthInputs:
    shown = {}
    for key, points in curves.items():
        steps = [step for step in sorted(points) if step <= until]
        if steps:
            shown[key] = SeriesTail(np.array(steps), np.array([points[step] for step in steps]))
    return HealthInputs(shown, step=until)


@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    "preset",
    [
        "spread_toy",
        pytest.param("plan_path_duo", marks=pytest.mark.soak),
        pytest.param("recall_mappo_gru", marks=pytest.mark.soak),
    ],
)
def test_a_preset_that_learns_ends_without_a_finding(preset: str, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "workers.run", "--preset", preset, "--local", "run.seed=1"]
    subprocess.run(command, env=os.environ | {"TROUPE_HOME": str(tmp_path)}, check=True, capture_output=True)
    curves = curves_of(tmp_path / "runs")
    health = load_config(preset).health
    levels: dict[tuple[str, str], Level] = {}
    for step in sorted({step for points in curves.values() for step in points}):
        found = {
            (rule, each.key): level_now(levels.get((rule, each.key), Level.NONE), each, health.relax)
            for rule, each in judge(health, observed(curves, step))
        }
        levels = {key: level for key, level in found.items() if level > Level.NONE}
    assert curves and levels == {}
