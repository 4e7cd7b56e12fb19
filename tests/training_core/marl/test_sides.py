"""Each side against chance: what tests/benchmarks/marl_sides.py says of a game whose returns are known."""

from statistics import mean

import pytest
import torch

from tests.benchmarks.marl_reference import by_lot, middle, returns, talk
from tests.benchmarks.marl_sides import cross_play, table, trained
from tests.training_core.marl.hints import two_sides
from training_core.config.files import load_config
from training_core.config.marl import MarlConfig
from training_core.marl.trainer import MarlTrainer


def test_who_plays_as_trained_and_who_by_lot():
    """A good agent that always goes right leaves the plane and pays for it, whoever chases."""
    trainer = MarlTrainer(two_sides())
    with torch.no_grad():
        trainer.learners["kind"].actor.head.bias[2] = 50.0
    found = cross_play(trainer, 32)
    trainer.close()
    assert list(found) == [(), ("kind",), ("bad",), ("bad", "kind")]
    assert all(len(earned) == 32 for returns in found.values() for earned in returns.values())
    good = {able: mean(returns["good"]) for able, returns in found.items()}
    assert max(good["kind",], good["bad", "kind"]) < min(good[()], good["bad",]) - 30
    assert table(found).splitlines()[3].startswith("| kind | ")


def test_who_talks_gets_farther_than_who_goes_to_the_middle():
    """The order that the docs' figures of simple_reference have."""
    earned = [returns(policy).mean() for policy in (by_lot, middle, talk)]
    assert earned[0] < -50 < earned[1] < -30 < earned[2] < -15


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
