"""toy_simple_spread: rewards by hand, observations, returns."""

import numpy as np
import pytest

from training_core.marl.environments.config import ToySimpleSpread
from training_core.marl.environments.games import Games
from training_core.marl.environments.toy_simple_spread import ToySpreadGame


def toy_spread(count: int, **fields: object) -> Games:
    return Games(ToySpreadGame(ToySimpleSpread.model_validate(fields), count), count)


def test_toy_simple_spread_rewards_slots_less_collisions_by_hand() -> None:
    games = toy_spread(3, num_agents=4, coverage_reward=2.0, collision_penalty=0.5)
    games.reset(0)
    moved = games.step({"agents": np.array([[0, 1, 2, 3], [0, 0, 1, 1], [2, 2, 2, 2]])})
    # 4 slots, none shared; 2 slots, 2 agents too many; 1 slot, 3 too many. Every agent has a quarter.
    assert moved.rewards["agents"].sum(axis=1) == pytest.approx([8.0, 2 * 2 - 2 * 0.5, 2 - 3 * 0.5])
    assert np.ptp(moved.rewards["agents"], axis=1) == pytest.approx([0, 0, 0])
    assert games.board(1) == {
        "kind": "grid",
        "rows": 5,
        "columns": 4,
        "cells": [(4, slot, "goal") for slot in range(4)]
        + [(0, 0, "agent_0"), (1, 0, "agent_1"), (2, 1, "agent_2"), (3, 1, "agent_3")],
    }


def test_toy_simple_spread_sees_the_time_and_who_it_is() -> None:
    games = toy_spread(2, num_agents=3, max_cycles=4)
    assert games.reset(0).observations["agents"].tolist() == [[[0, 0], [0, 0.5], [0, 1]]] * 2
    for step in range(1, 5):
        moved = games.step({"agents": np.zeros((2, 3), dtype=np.int64)})
        ended = step == 4
        assert moved.terminated.tolist() == [ended, ended] and not moved.truncated.any()
        assert moved.view.observations["agents"][0, 0, 0] == (0 if ended else step / 4)
    assert moved.final is not None and moved.final.observations["agents"][1].tolist() == [
        [1, 0],
        [1, 0.5],
        [1, 1],
    ]


def test_random_choices_in_the_toy_earn_43_and_the_most_is_125() -> None:
    games, random = toy_spread(400), np.random.default_rng(0)
    games.reset(0)
    returns = (
        sum(
            games.step({"agents": random.integers(0, 5, (400, 5))}).rewards["agents"].sum() for _ in range(25)
        )
        / 400
    )
    assert returns == pytest.approx(25 * (2 * 5 * (1 - 0.8**5) - 5), abs=1.0)
    best = np.repeat(np.arange(5)[None], 400, axis=0)
    assert sum(games.step({"agents": best}).rewards["agents"][0].sum() for _ in range(25)) == 125.0
