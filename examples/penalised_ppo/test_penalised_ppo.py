"""penalised_ppo: the loss by hand."""

import pytest
import torch

from examples.penalised_ppo.config import PenalisedPpo
from training_core.config.files import load_config
from training_core.marl.trainer import MarlTrainer

LEARNER = "examples.penalised_ppo.penalised_ppo:PenalisedPpoLearner"


def test_the_loss_is_penalised_and_not_clipped() -> None:
    config = load_config("spread_toy", {"algorithm.type": "custom_ppo", "algorithm.path": LEARNER})
    learner = MarlTrainer(config).learners["agents"]
    learner.algorithm = PenalisedPpo(beta=0.5)
    loss = learner.policy_loss(torch.tensor([0.0, 2.0]).log1p(), torch.tensor([1.0, 1.0]))
    assert loss.tolist() == pytest.approx([-1.0, -3.0 + 0.5 * (2.0 - 1.0986123)])
