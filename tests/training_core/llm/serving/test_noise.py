"""Keys of calls: by prompt and repetition, the same in any order."""

from training_core.llm.serving.batching import EpisodeNoise
from training_core.types import NoiseKey

DIGEST = 0x508D9FC4
"""CRC-32 of the ids 5, 6 as 64-bit integers."""


def noise() -> EpisodeNoise:
    return EpisodeNoise(7, 3, 1, 5)


def test_a_key_is_the_episode_the_prompt_and_its_repetition() -> None:
    episode = noise()
    assert episode.key(2, [5, 6]) == NoiseKey(7, 3, 1, 5, DIGEST << 16, 2)
    assert episode.key(2, [5, 6]) == NoiseKey(7, 3, 1, 5, (DIGEST << 16) + 1, 2)
    assert episode.key(0, [5, 6]) == NoiseKey(7, 3, 1, 5, DIGEST << 16, 0)


def test_other_calls_in_between_change_no_key() -> None:
    alone, among = noise(), noise()
    among.key(0, [8])
    among.key(1, [5, 6])
    assert among.key(0, [5, 6]) == alone.key(0, [5, 6])


def test_members_have_different_keys_that_fit_into_a_word() -> None:
    keys = {noise().of_member(member).key(0, [5, 6]) for member in (0, 1, 32767)}
    assert len(keys) == 3 and max(key.turn for key in keys) < 2**63
