"""That small networks really learn, in short, and each side of a game against chance: the long curves are in tests/benchmarks."""

from statistics import mean

import pytest

from tests.benchmarks.marl_learning import train
from tests.benchmarks.marl_sides import cross_play, trained
from training_core.config.files import load_config
from training_core.config.marl import MarlConfig


@pytest.mark.extended
def test_both_sides_of_push_learn():
    """Seen after 75 iterations: the good agent -28 by lot and -8 as trained, the adversary 0 and 6."""
    config = load_config("tag_mappo", {"environment.type": "mpe_simple_push", "run.iterations": 40})
    assert isinstance(config, MarlConfig)
    trainer, *_ = trained(config)
    found = cross_play(trainer, 512)
    trainer.close()
    good, adversary = (
        {able: mean(returns[role]) for able, returns in found.items()} for role in ("good", "adversaries")
    )
    assert good["good",] > good[()] + 10
    assert adversary["adversaries",] > adversary[()] + 2


UNLIMITED = float("inf")
"""Seconds of CPU: a slow machine learns as much."""


@pytest.mark.slow
def test_the_toy_is_solved_within_12_800_steps():
    curve = train("spread_toy", 0, UNLIMITED, 8, ())
    solved = curve.passed(125.0)
    assert solved is not None and solved.steps <= 12_800


@pytest.mark.soak
@pytest.mark.parametrize("preset", ["spread_mappo", "spread_ippo"])
def test_three_agents_cover_three_landmarks(preset):
    """A tenth of the preset's iterations; the whole of them go past -30."""
    curve = train(preset, 0, UNLIMITED, 50, ("run.iterations=150",))
    assert curve.passed(-45.0) is not None


@pytest.mark.soak
def test_workers_learn_what_scouts_signal():
    """Workers see nothing of the target: without a signal, one of four is 25 steps x 2 x (0.25 - 0.75 x 0.25)."""
    curve = train("hetero_mappo", 0, UNLIMITED, 50, ())
    assert curve.points[-1].greedy["agents"] > 35.0


@pytest.mark.soak
def test_agents_gather_all_the_food():
    """Four pieces and the bonus are 6, less 0.01 for each step."""
    curve = train("foraging_mappo", 0, UNLIMITED, 50, ())
    assert curve.points[-1].greedy["agents"] > 5.0
