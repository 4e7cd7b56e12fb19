"""Toy games: a naive loop over random games, rewards and observations by hand, ends of episodes, seeds of episodes."""

import numpy as np
import pytest
from pydantic import TypeAdapter, ValidationError

from training_core.boards import Board
from training_core.marl.environments.base import Choices
from training_core.marl.environments.config import RecallCue, SimpleForaging, SimpleHetero, ToySimpleSpread
from training_core.marl.environments.episodes import SEED_BITS, draws, episode_seeds
from training_core.marl.environments.games import Games
from training_core.marl.environments.registry import make_environments
from training_core.marl.environments.simple_foraging import MOVES, ForagingGame
from training_core.marl.environments.simple_hetero import HeteroGame
from training_core.marl.environments.toy_simple_spread import ToySpreadGame
from training_core.seeding import keyed_seed


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


def test_the_cue_is_seen_once_and_asked_for_at_the_end() -> None:
    environment = make_environments(RecallCue(num_agents=3, num_cues=5, delay=4), 6)
    first = environment.reset(0).observations["agents"]
    assert first.shape == (6, 3, 6)
    assert (first[:, :, :5].sum(axis=2) == 1.0).all()
    assert not first[:, :, 5].any()
    cues = first[:, :, :5].argmax(axis=2)
    assert len(np.unique(cues)) == 5, "all cues are drawn"
    for step in range(1, 5):
        transition = environment.step({"agents": cues})
        seen = transition.view.observations["agents"]
        assert not seen[:, :, :5].any(), "nothing of the cue is seen after it"
        assert (seen[:, :, 5] == (step == 4)).all()
        assert not transition.rewards["agents"].any(), "choices before the end earn nothing"
        assert not transition.terminated.any()
    wrong = cues.copy()
    wrong[2, 1] = (cues[2, 1] + 1) % 5
    last = environment.step({"agents": wrong})
    expected = np.ones((6, 3))
    expected[2, 1] = 0.0
    assert last.rewards["agents"].tolist() == expected.tolist()
    assert last.terminated.all()
    assert not last.truncated.any()
    assert last.final is not None
    assert not last.final.observations["agents"].any()
    fresh = last.view.observations["agents"]
    assert (fresh[:, :, :5].sum(axis=2) == 1.0).all(), "the next episode shows its cues"
    assert not np.array_equal(fresh, first)


def test_the_seed_decides_and_a_delay_of_one_asks_at_once() -> None:
    environment = make_environments(RecallCue(delay=1), 4)
    first = environment.reset(3).observations["agents"]
    assert np.array_equal(first, make_environments(RecallCue(delay=1), 4).reset(3).observations["agents"])
    seen = environment.step({"agents": np.zeros((4, 2), dtype=np.int64)}).view.observations["agents"]
    assert (seen[:, :, -1] == 1.0).all()
    assert environment.spec.max_steps == 2


def test_the_board_says_each_agents_cue() -> None:
    environment = make_environments(RecallCue(delay=1), 2)
    cues = environment.reset(0).observations["agents"].argmax(axis=2)
    board = TypeAdapter(Board).validate_python(environment.board(1))
    assert [line.text for line in getattr(board, "lines")] == [  # noqa: B009
        f"cue {cue}, shown now" for cue in cues[1]
    ]
    environment.step({"agents": cues})
    assert "choose now" in str(environment.board(0))
    moved = environment.step({"agents": cues}, [1])
    assert str(moved.last_boards[1]).count(", over") == 2 and "shown now" in str(environment.board(1))
    environment.close()


def test_an_environment_s_seeds_do_not_depend_on_who_stands_beside_it() -> None:
    whole = episode_seeds(7, np.arange(6), np.full(6, 2))
    share = episode_seeds(7, np.arange(4, 6), np.full(2, 2))
    assert np.array_equal(share, whole[4:])
    assert whole[3] == keyed_seed(7, 3, 2) >> (63 - SEED_BITS)
    assert len(set(whole.tolist())) == 6 and whole.max() < 2**SEED_BITS


def test_draws_are_uniform_and_differ_by_seed_step_and_place() -> None:
    seeds = episode_seeds(1, np.arange(500), np.zeros(500, dtype=np.int64))
    first, second = draws(seeds, 0, 8), draws(seeds, np.full(500, 1), 8)
    assert first.shape == (500, 8) and len(np.unique(np.concatenate([first, second]))) == 8000
    assert abs(first.mean() - 0.5) < 0.02 and abs(first.var() - 1 / 12) < 0.005
    assert np.array_equal(draws(seeds[10:11], 0, 8)[0], first[10])


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
