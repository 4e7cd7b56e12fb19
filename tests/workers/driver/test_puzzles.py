"""A puzzle and a game are really learnt: a small model, warm-started for them, gets better within some iterations."""

from pathlib import Path

import pytest

from tests.training_core.llm.environments.kuhn_solver import exploitability, strategy_of
from tests.workers.running import events
from training_core.config.files import load_config
from training_core.llm.base_models.folder_creation import silent
from training_core.llm.base_models.tiny import TinyRecipe
from training_core.llm.base_models.warm_start import make_tiny
from workers.driver.attempt import run_attempt
from workers.protocol import Attempt

pytestmark = pytest.mark.extended


def test_blocksworld_is_learnt(tmp_path: Path) -> None:
    model, folder = tmp_path / "model", tmp_path / "run"
    model.mkdir()
    config = load_config(
        "blocksworld",
        {
            "run.iterations": 8,
            "policies.planner.model": str(model),
            "policies.executor.model": str(model),
            "rollout.tasks": 16,
            "evaluation.episodes": 64,
            "evaluation.every": 8,
        },
    )
    recipe = TinyRecipe(hidden_size=48, layers=2, heads=2, steps=250, batch=48)
    make_tiny(config.environment, recipe, model, silent)
    assert run_attempt(Attempt(config, "r", 1, folder, tmp_path), local=True) == 0
    sampled = {
        event["step"]: event["values"]["eval_sampled/return"]
        for event in events(folder, "metrics")
        if "eval_sampled/return" in event["values"]
    }
    assert sampled[8] > sampled[0] + 0.2


def test_kuhn_poker_is_learnt(tmp_path: Path) -> None:
    """What a best reply wins against the two policies, exactly: less than half of what it wins against their base models."""
    model, folder = tmp_path / "model", tmp_path / "run"
    model.mkdir()
    models = {f"policies.{role}.model": str(model) for role in ("first", "second")}
    config = load_config(
        "kuhn_poker", models | {"run.iterations": 60, "evaluation.every": 0, "rollout.tasks": 24}
    )
    make_tiny(config.environment, TinyRecipe(hidden_size=48, layers=2, heads=2, steps=250), model, silent)
    assert run_attempt(Attempt(config, "r", 1, folder, tmp_path), local=True) == 0
    last = folder / "checkpoints" / "iteration-000060"
    before = exploitability(strategy_of(model, 0), strategy_of(model, 1))
    after = exploitability(strategy_of(last / "first", 0), strategy_of(last / "second", 1))
    assert after < before / 2, (before, after)
