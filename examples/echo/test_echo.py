"""echo: rewards by hand."""

import numpy as np

from examples.echo.config import Echo
from examples.echo.echo import EchoGame
from training_core.marl.environments.games import Games


def test_a_right_choice_is_rewarded() -> None:
    environments = Games(EchoGame(Echo(num_agents=3), 2), 2)
    shown = environments.reset(seed=1).observations["agents"].argmax(axis=-1)
    transition = environments.step({"agents": shown + np.array([[0, 0, 1], [0, 1, 1]])})
    assert transition.rewards["agents"].tolist() == [[1, 1, 0], [1, 0, 0]]
