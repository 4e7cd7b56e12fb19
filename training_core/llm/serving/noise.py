"""Keys of the sampling noise of calls within an episode."""

import zlib
from array import array
from collections import Counter
from collections.abc import Sequence

from training_core.types import NoiseKey

_DIGEST, _MEMBER = 16, 48
"""Lowest bits of a prompt's digest and of a member's index in the key's turn; repetitions are below."""


class EpisodeNoise:
    """Keys by prompt, and by how often the episode sent it before, never by timing or by the order of different calls."""

    def __init__(self, seed: int, stream: int, iteration: int, episode: int, member: int = 0) -> None:
        """`episode`: its index among those of its kind; `member`: index of a play, if the episode is played several times."""
        self._words = seed, stream, iteration, episode
        self._member = member
        self._calls: Counter[tuple[int, int]] = Counter()

    def of_member(self, index: int) -> "EpisodeNoise":
        """The noise of one of several plays of the episode."""
        return EpisodeNoise(*self._words, index)

    def key(self, role_index: int, prompt_ids: Sequence[int]) -> NoiseKey:
        """The key of the episode's next call with this prompt by the role with this index in the team's order."""
        digest = zlib.crc32(array("q", prompt_ids).tobytes())
        repeats = self._calls[role_index, digest]
        self._calls[role_index, digest] += 1
        return NoiseKey(*self._words, (self._member << _MEMBER) + (digest << _DIGEST) + repeats, role_index)
