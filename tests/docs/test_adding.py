"""The examples of CONTRIBUTING.md, from their files to a run that trains."""

import os
import shutil
from pathlib import Path

import pytest

from tests.architecture.source import ROOT
from tests.docs.examples import Example, python, write
from tests.workers.running import little_model

SMALL = (
    *("run.iterations=1", "rollout.tasks=4", "rollout.group_size=4", "evaluation.every=0"),
    *("environment.size=4", "environment.max_turns=2", "environment.moves_per_turn=2"),
)
EXAMPLES = (
    Example(
        "the larger of two numbers",
        "llm/environments/larger_number",
        "larger_number",
        ("run.iterations=1", "rollout.tasks=8", "evaluation.episodes=8"),
    ),
    Example("repeat a number", "marl/environments/echo", "echo_mappo", ("run.iterations=1",)),
    Example(
        "residual blocks",
        "marl/networks/residual",
        "spread_toy",
        ("policies.agents.network.type=residual", "run.iterations=1"),
    ),
    Example(
        "a median as the baseline",
        "algorithms/median_grpo",
        "plan_path_duo",
        (*SMALL, "algorithm.type=median_grpo", "algorithm.scale=0.5"),
    ),
    Example(
        "a penalty instead of the clip",
        "marl/algorithms/penalised_ppo",
        "spread_toy",
        ("run.iterations=1", "algorithm.type=penalised_ppo", "algorithm.beta=0.5"),
    ),
    Example(
        "an engine without batches",
        "llm/generation/naive",
        "plan_path_duo",
        (*SMALL, "policies.planner.engine.type=naive"),
    ),
    Example(
        "a learner that keeps the embeddings",
        "llm/learning/frozen_embeddings",
        "plan_path_duo",
        (*SMALL, "policies.planner.learner.type=frozen_embeddings"),
    ),
    Example("a CSV file", "loggers/csv", "spread_toy", ("run.iterations=1", "reporting.csv=true")),
)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return little_model(tmp_path_factory.mktemp("models") / "little")


@pytest.mark.extended
@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.folder)
def test_an_example_of_contributing_passes_its_test_and_trains(
    example: Example, model: Path, tmp_path: Path
) -> None:
    """In one process, which imports torch once."""
    test = write(example, tmp_path)
    testing = ["-q", "-c", os.devnull, "-p", "no:django", "--import-mode=importlib", str(test)]
    overrides = list(example.overrides)
    if example.preset == "plan_path_duo":
        overrides += [f"policies.{name}.model={model}" for name in ("planner", "executor")]
    home = tmp_path / "home"
    training = ["--preset", example.preset, "--local", *overrides, "--home", str(home)]
    code = f"import sys, pytest; from workers.run import main; sys.exit(pytest.main({testing}) or main({training}))"
    output = python(tmp_path, "-c", code)
    assert " passed" in output and "finished after 1 iterations" in output
    if example.folder == "loggers/csv":
        (file,) = home.glob("runs/*/metrics.csv")
        assert "train/return" in file.read_text()


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.folder)
def test_an_example_of_contributing_keeps_style_and_effect_rules(example: Example, tmp_path: Path) -> None:
    """The example's settings have an effect."""
    test = write(example, tmp_path)
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    paths = [str(tmp_path / "training_core" / example.folder), str(test)]
    first_party = 'lint.isort.known-first-party = ["tests", "training_core"]'
    python(tmp_path, "-m", "ruff", "check", "--config", first_party, *paths)
    python(tmp_path, "-m", "ruff", "format", "--check", *paths)
    code = f"""
from training_core.config import files
from training_core.config.effects import unused_settings
assert files.__file__.startswith({str(tmp_path)!r})
overrides = files.parse_overrides({list(example.overrides)!r})
unused = [setting.path for setting in unused_settings(files.load_config({example.preset!r}, overrides))]
assert not set(unused) & set(overrides), unused
"""
    python(tmp_path, "-c", code)
