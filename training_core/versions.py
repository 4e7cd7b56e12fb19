"""Versions of weights on tokens, and the age of data.

A version is one publication of a policy's weights. The age of a token is the number of publications between the
version that sampled it and the policy's current one.
"""

from collections.abc import Iterable, Mapping, Sequence

from training_core.errors import StalePolicy
from training_core.types import NOT_SAMPLED, Answer, Episode, Group


def version_span(versions: Iterable[int]) -> tuple[int, int] | None:
    """(oldest, newest) version of the sampled tokens; None if there are none."""
    sampled = [version for version in versions if version != NOT_SAMPLED]
    return (min(sampled), max(sampled)) if sampled else None


def answer_age(answer: Answer, version: int) -> int:
    """Age of the oldest trained token when the policy is at `version`; negative if a token is newer, 0 without tokens."""
    ages = [version - sampled_by for sampled_by in answer.learnt(answer.versions)]
    return min(ages) if ages and min(ages) < 0 else max(ages, default=0)


def episode_age(episode: Episode, versions: Mapping[str, int]) -> int:
    """Age of the episode's oldest trained token, by its policy's current version in `versions`; 0 without tokens."""
    return max(
        (
            versions[turn.policy] - min(trained)
            for turn in episode.turns
            for candidate in turn.candidates
            if (trained := candidate.answer.learnt(candidate.answer.versions))
        ),
        default=0,
    )


def oldest_versions(episode: Episode) -> dict[str, int]:
    """The version of the oldest token by policy, of the policies that generated in the episode."""
    oldest: dict[str, int] = {}
    for stage in episode.stages:
        if stage.versions is not None:
            oldest[stage.policy] = min(stage.versions[0], oldest.get(stage.policy, stage.versions[0]))
    return oldest


def first_version_tokens(answer: Answer) -> int:
    """Number of tokens before the version changes within the answer."""
    changed = (index for index, version in enumerate(answer.versions) if version != answer.versions[0])
    return next(changed, len(answer.versions))


def check_ages(groups: Sequence[Group], version: int, staleness: int = 0) -> None:
    """Raises StalePolicy if a token was sampled by a newer version, or one more than `staleness` older."""
    oldest = version - staleness
    for group in groups:
        for answer in group.answers:
            versions = answer.learnt(answer.versions)
            if versions and not oldest <= min(versions) <= max(versions) <= version:
                refused = next(number for number in versions if not oldest <= number <= version)
                raise StalePolicy(
                    f"episode {group.episode}, turn {group.turn}: sampled by version {refused}, but the policy is at "
                    f"version {version} and rollout.staleness is {staleness}; training refuses it "
                    '(rollout.stale = "drop" discards this data)'
                )
