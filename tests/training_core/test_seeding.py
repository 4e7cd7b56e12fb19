"""Keyed noise: uniform, and a function of its key alone."""

import numpy as np

from training_core.seeding import NoiseStream, fold, key_states, keyed_seed, keyed_uniform, uniforms


def splitmix_finaliser(word: int) -> int:
    """splitmix64's output function in plain Python integers."""
    mask = 2**64 - 1
    word = ((word ^ (word >> 30)) * 0xBF58476D1CE4E5B9) & mask
    word = ((word ^ (word >> 27)) * 0x94D049BB133111EB) & mask
    return word ^ (word >> 31)


def slow_uniform(*key: int) -> float:
    """The same draw, one integer at a time."""
    mask, golden, state = 2**64 - 1, 0x9E3779B97F4A7C15, 0
    for word in key:
        inner = splitmix_finaliser(((word & mask) + golden) & mask)
        state = splitmix_finaliser((state + golden + inner) & mask)
    return (state >> 11) * 2.0**-53


def test_it_equals_an_independent_computation() -> None:
    for key in [(0,), (1, 2, 3), (5, 0, 9, 2**40, -1, 7)]:
        assert keyed_uniform(*key) == slow_uniform(*key)


def test_draws_depend_on_the_key_and_not_on_the_company() -> None:
    keys = np.array([[seed, turn, role] for seed in range(5) for turn in range(4) for role in range(3)])
    together = uniforms(key_states(keys))
    order = np.random.default_rng(0).permutation(len(keys))
    assert (uniforms(key_states(keys[order])) == together[order]).all()
    assert together[7] == keyed_uniform(*keys[7].tolist())


def test_folding_goes_on_from_a_state() -> None:
    assert uniforms(fold(key_states(np.array([[1, 2]])), 3))[0] == keyed_uniform(1, 2, 3)


def test_draws_are_uniform_and_neighbours_unrelated() -> None:
    keys = np.stack([np.zeros(100_000, dtype=np.int64), np.arange(100_000)], axis=1)
    draws = uniforms(key_states(keys))
    counts = np.bincount((draws * 20).astype(int), minlength=20)
    assert abs(counts - 5000).max() < 5 * np.sqrt(5000)
    assert abs(np.corrcoef(draws[:-1], draws[1:])[0, 1]) < 5 / np.sqrt(len(draws))
    assert len(np.unique(draws)) == len(draws)


def test_seeds_of_different_keys_differ() -> None:
    assert len({keyed_seed(0, stream, task) for stream in range(3) for task in range(1000)}) == 3000


def test_streams_keep_the_numbers_of_recorded_runs() -> None:
    numbers = {name: int(stream) for name, stream in NoiseStream.__members__.items()}
    assert numbers == {
        "TURN_TREE": 0,
        "EVALUATION": 1,
        "EPISODES": 2,
        "AGENTS": 3,
        "AGENT_EVALUATION": 4,
        "ROLLOUT_WORKFLOWS": 5,
        "SERVED_POLICIES": 5,
        "ROLLOUT_WORKFLOW_EVALUATION": 6,
        "CONTINUATIONS": 7,
        "REPLAYS": 8,
        "ALTERNATIVES": 9,
        "BRANCHES": 10,
    }
    assert keyed_uniform(0, NoiseStream.EPISODES, 1) == slow_uniform(0, 2, 1)
