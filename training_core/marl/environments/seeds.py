"""Seeds of episodes: each follows from the run's seed, the environment's number and its number of played episodes.

Therefore an environment plays the same episodes independent of the number of environments, the process, and earlier
play.
"""

import numpy as np
from numpy.typing import NDArray

from training_core.seeding import Words, fold, key_states, uniforms

SEED_BITS = 31
"""Environments pass their seeds to various generators, some of which accept no more bits."""


def episode_seeds(
    seed: int | NDArray[np.int64], numbers: NDArray[np.int64], episodes: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Seeds (k,) of the episodes that these environments (k,) begin; `episodes` (k,) counts from 0. `seed`: one, or (k,)."""
    keys = np.stack([np.full_like(numbers, seed), numbers, episodes], axis=1)
    return (key_states(keys) >> np.uint64(64 - SEED_BITS)).astype(np.int64)


def draws(seeds: NDArray[np.int64], steps: NDArray[np.int64] | int, width: int) -> NDArray[np.float64]:
    """Uniform numbers in [0, 1), (k, width), for episodes of these seeds (k,) at these steps (k,)."""
    states: Words = fold(key_states(seeds[:, None]), steps)
    return uniforms(fold(states[:, None], np.arange(width)[None, :]))
