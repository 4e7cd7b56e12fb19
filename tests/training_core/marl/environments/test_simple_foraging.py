"""simple_foraging: a naive loop over random games, ends of episodes, invalid configs."""

import numpy as np
import pytest
from pydantic import ValidationError

from training_core.marl.environments.config import SimpleForaging
from training_core.marl.environments.games import Games
from training_core.marl.environments.simple_foraging import MOVES, ForagingGame


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
