"""simple_hetero: rewards and observations by hand, noise of the hints."""

import numpy as np
import pytest

from training_core.marl.environments.base import Choices
from training_core.marl.environments.config import SimpleHetero
from training_core.marl.environments.games import Games
from training_core.marl.environments.simple_hetero import HeteroGame


def hetero(count: int, **fields: object) -> Games:
    return Games(HeteroGame(SimpleHetero.model_validate(fields), count), count)


def test_simple_hetero_plays_by_its_words() -> None:
    games = hetero(64, hint_noise=0.0, num_scouts=2, num_workers=3, mismatch_penalty=0.5)
    role = games.spec.roles["agents"]
    assert role.observation_dim == 6 and role.actions == Choices(6)
    view = games.reset(5)
    hints = view.observations["agents"][:, :2]
    target = hints[:, 0, 1:5].argmax(axis=1)
    assert set(target.tolist()) == {0, 1, 2, 3}
    assert np.array_equal(hints[:, 0, 1:5], np.eye(4, dtype=np.float32)[target]) and np.array_equal(
        hints[:, 0], hints[:, 1]
    )
    assert not view.observations["agents"][:, 2:].any()  # nobody has signalled yet
    assert view.masks["agents"][0].tolist() == [[True] * 6] * 2 + [[True] * 4 + [False] * 2] * 3
    actions = np.zeros((64, 5), dtype=np.int64)
    actions[:, 0], actions[:, 1] = 5, target
    actions[:, 2], actions[:, 3], actions[:, 4] = target, (target + 1) % 4, target
    moved = games.step({"agents": actions})
    assert moved.rewards["agents"].sum(axis=1) == pytest.approx([2 - 0.5] * 64)
    heard = (np.eye(6)[5] + np.eye(6)[target]) / 2
    assert np.array_equal(moved.view.observations["agents"][:, 4], heard.astype(np.float32))
    assert moved.view.observations["agents"][0, 0, 0] == np.float32(1 / 25)


def test_hints_are_noisy_anew_at_each_step_with_the_deviation_asked_for() -> None:
    games = hetero(300, hint_noise=0.3)
    seen = [games.reset(2).observations["agents"][:, :2, 1:5]]
    nothing = {"agents": np.zeros((300, 4), dtype=np.int64)}
    seen += [games.step(nothing).view.observations["agents"][:, :2, 1:5] for _ in range(4)]
    noise = np.stack(seen) - np.round(np.stack(seen).mean(axis=(0, 2), keepdims=True))
    assert noise.std() == pytest.approx(0.3, abs=0.01) and abs(noise.mean()) < 0.01
    assert len(np.unique(noise)) > 0.99 * noise.size
