"""The toys: rewards by hand, naive loops over random games, ends of episodes, seeds."""

from itertools import pairwise

import numpy as np
import pytest
from pydantic import ValidationError

from training_core.boards import Grid
from training_core.config.marl.environments import SimpleForaging, SimpleHetero, ToySimpleSpread
from training_core.marl.environments.base import Choices
from training_core.marl.environments.games import Games
from training_core.marl.environments.toys.simple_foraging import MOVES, ForagingGame
from training_core.marl.environments.toys.simple_hetero import HeteroGame
from training_core.marl.environments.toys.toy_simple_spread import ToySpreadGame


def toy_spread(count: int, **fields: object) -> Games:
    return Games(ToySpreadGame(ToySimpleSpread.model_validate(fields), count), count)


def hetero(count: int, **fields: object) -> Games:
    return Games(HeteroGame(SimpleHetero.model_validate(fields), count), count)


def foraging(count: int, **fields: object) -> Games:
    return Games(ForagingGame(SimpleForaging.model_validate(fields), count), count)


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


def naive_foraging(section: SimpleForaging, agents: list, food: set, actions: np.ndarray) -> float:
    """One step on one grid, in place: the team's reward."""
    for number, action in enumerate(actions):
        row, column = agents[number][0] + MOVES[action][0], agents[number][1] + MOVES[action][1]
        if 0 <= row < section.grid_size and 0 <= column < section.grid_size:
            agents[number] = (row, column)
    gathered = food & set(agents)
    food -= gathered
    return (
        section.collect_reward * len(gathered)
        - section.step_penalty
        + (0 if food else section.completion_reward)
    )


def naive_sight(section: SimpleForaging, agents: list, food: list, step: int) -> list:
    size, seen = section.grid_size - 1, []
    for row, column in agents:
        ways = [(abs(r - row) + abs(c - column), r - row, c - column) for r, c in food]
        _, down, right = min(ways, key=lambda way: way[0]) if ways else (0, 0, 0)
        rest = [down / size, right / size, len(food) / section.num_food, step / section.max_cycles]
        seen.append([row / size, column / size, *rest])
    return seen


def places(board: dict, mark: str) -> list:
    return [(row, column) for row, column, found in board["cells"] if found.startswith(mark)]


def test_simple_foraging_is_what_a_naive_loop_plays() -> None:
    section = SimpleForaging(num_agents=2, grid_size=4, num_food=2, max_cycles=60)
    games, random, final_states = Games(ForagingGame(section, 5), 5), np.random.default_rng(1), 0
    games.reset(3)
    agents = [places(games.board(row), "agent_") for row in range(5)]
    food = [places(games.board(row), "goal") for row in range(5)]
    assert all(len({*a, *f}) == 4 for a, f in zip(agents, food, strict=True))
    steps = [0] * 5
    for _ in range(400):
        actions = random.integers(0, 5, (5, 2))
        moved = games.step({"agents": actions})
        for row in range(5):
            left = set(food[row])
            reward = naive_foraging(section, agents[row], left, actions[row])
            food[row] = [piece for piece in food[row] if piece in left]
            steps[row] += 1
            assert moved.rewards["agents"][row] == pytest.approx([reward / 2] * 2, abs=1e-6)
            assert moved.terminated[row] == (not left)
            assert moved.truncated[row] == (bool(left) and steps[row] == 60)
            ended = moved.terminated[row] or moved.truncated[row]
            seen = moved.final if ended else moved.view
            expected = naive_sight(section, agents[row], food[row], steps[row])
            assert np.allclose(seen.observations["agents"][row], expected, atol=1e-6)
            if ended:
                final_states, steps[row] = final_states + 1, 0
                agents[row], food[row] = places(games.board(row), "agent_"), places(games.board(row), "goal")
    assert final_states > 10


def test_more_than_the_grid_holds_is_refused() -> None:
    with pytest.raises(ValidationError, match="num_food"):
        SimpleForaging(grid_size=2, num_agents=3, num_food=2)


@pytest.mark.parametrize("make", [toy_spread, hetero, foraging])
def test_a_share_of_environments_plays_the_same_as_the_whole(make) -> None:
    whole, share, random = make(6), make(2), np.random.default_rng(4)
    views, parts = [whole.reset(9)], [share.reset(9, first=3)]
    kept = [views[0].observations["agents"].copy()]
    role = whole.spec.roles["agents"]
    for _ in range(60):
        actions = random.integers(0, 4, (6, len(role.agents)))
        moved, part = whole.step({"agents": actions}), share.step({"agents": actions[3:5]})
        assert np.array_equal(moved.rewards["agents"][3:5], part.rewards["agents"])
        (
            views.append(moved.view),
            parts.append(part.view),
            kept.append(moved.view.observations["agents"].copy()),
        )
        Grid.model_validate(whole.board(5))
    for view, part, copy in zip(views, parts, kept, strict=True):
        assert np.array_equal(view.observations["agents"], copy)
        assert np.array_equal(view.observations["agents"][3:5], part.observations["agents"])
    again = whole.reset(9).observations["agents"]
    assert np.array_equal(again, kept[0])
    assert any(not np.array_equal(one, other) for one, other in pairwise(kept))
