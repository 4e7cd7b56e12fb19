"""Noise that depends on what is drawn, not on the worker or the batch.

A counter-based generator: the key of a draw (seed, stream, iteration, task, turn, role, candidate, token position) is
hashed to one uniform number with splitmix64's finaliser (Steele, Lea, Flood 2014, "Fast splittable pseudorandom
number generators"), applied word by word. The same key gives the same number on every worker.
"""

from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2 = np.uint64(0x94D049BB133111EB)
_TO_UNIT = 2.0**-53

Words = NDArray[np.uint64]


class NoiseStream(IntEnum):
    """Streams of sampling noise: the second word of a noise key, so that two uses of a seed share no noise."""

    TURN_TREE = 0
    EVALUATION = 1
    EPISODES = 2
    AGENTS = 3
    AGENT_EVALUATION = 4
    ROLLOUT_WORKFLOWS = 5
    SERVED_POLICIES = 5  # an alias: a run has rollout workflows or serves its policies, never both
    ROLLOUT_WORKFLOW_EVALUATION = 6
    CONTINUATIONS = 7
    REPLAYS = 8
    ALTERNATIVES = 9
    BRANCHES = 10


def _mix(words: Words) -> Words:
    words = (words ^ (words >> np.uint64(30))) * _MIX_1
    words = (words ^ (words >> np.uint64(27))) * _MIX_2
    return words ^ (words >> np.uint64(31))


def fold(state: Words, word: NDArray[np.int64] | int) -> Words:
    """Absorb one key word into hash states; broadcasts. Negative words are taken modulo 2^64."""
    words = np.atleast_1d(np.asarray(word, dtype=np.int64)).astype(np.uint64)
    return _mix(state + _GOLDEN + _mix(words + _GOLDEN))


def key_states(keys: NDArray[np.int64]) -> Words:
    """Hash states of keys (N, words) -> (N,)."""
    state = np.zeros(len(keys), dtype=np.uint64)
    for column in range(keys.shape[1]):
        state = fold(state, keys[:, column])
    return state


def uniforms(states: Words) -> NDArray[np.float64]:
    """Uniform numbers in [0, 1) from hash states: their upper 53 bits."""
    return (states >> np.uint64(11)).astype(np.float64) * _TO_UNIT


def keyed_uniform(*key: int) -> float:
    """One uniform number in [0, 1) for a key of integers."""
    return float(uniforms(key_states(np.asarray([key], dtype=np.int64)))[0])


def keyed_seed(*key: int) -> int:
    """A 63-bit seed by key for a separate generator (tasks, initialisation)."""
    return int(key_states(np.asarray([key], dtype=np.int64))[0] >> np.uint64(1))
