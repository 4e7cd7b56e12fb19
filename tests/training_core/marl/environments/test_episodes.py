"""Episodes' seeds: by the environment's number and its episode, not by company."""

import numpy as np

from training_core.marl.environments.episodes import SEED_BITS, draws, episode_seeds
from training_core.seeding import keyed_seed


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
