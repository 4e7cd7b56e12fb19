"""The version check of training data: answers older than the policy raise an error, or are left out and counted."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from training_core.errors import StalePolicy
from training_core.types import Group
from training_core.versions import answer_age


@dataclass(frozen=True)
class Checked:
    """Groups that may be trained on, and counts of the check."""

    groups: list[Group]
    dropped: int
    """Number of answers left out."""
    answers: int
    """Number of answers checked."""
    lag: int
    """Sum over all answers of the age of the oldest token, in versions."""
    indices: dict[tuple[str, int], list[int]] = field(default_factory=dict)
    """Of groups with answers left out: the indices of the others, by (episode, turn position)."""


def check_versions(
    groups: Sequence[Group], version: int, policy: str, stale: Literal["error", "drop"], bound: int = 0
) -> Checked:
    """Compare every token's version with the policy's: it may be up to `bound` older, never newer.

    Raises StalePolicy if stale = "error".
    """
    current: list[Group] = []
    indices: dict[tuple[str, int], list[int]] = {}
    answers = lag = dropped = 0
    for group in groups:
        lags = [answer_age(answer, version) for answer in group.answers]
        answers += len(lags)
        lag += sum(abs(item) for item in lags)
        fresh = [index for index, item in enumerate(lags) if 0 <= item <= bound]
        if len(fresh) < len(lags) and stale == "error":
            versions = sorted(
                {number for answer in group.answers for number in answer.learnt(answer.versions)} - {version}
            )
            raise StalePolicy(
                f"policy {policy!r} is at version {version}, but episode {group.episode}, turn {group.turn} has "
                f"tokens of version {', '.join(map(str, versions))}, and rollout.staleness is {bound}; collect again, "
                'or set rollout.stale = "drop" to leave such answers out'
            )
        dropped += len(lags) - len(fresh)
        if len(fresh) == len(lags):
            current.append(group)
        elif fresh:
            current.append(_only(group, fresh))
            indices[group.episode, group.turn] = fresh
    return Checked(current, dropped, answers, lag, indices)


def check_weights(have: int, want: int, policy: str, worker: str) -> None:
    """Before generation or an update: the weights must have the requested version. Raises StalePolicy."""
    if have != want:
        raise StalePolicy(
            f"{worker} holds version {have} of policy {policy!r}, but version {want} was asked for; "
            "publish the weights before collecting"
        )


def _only(group: Group, indices: list[int]) -> Group:
    return replace(
        group,
        answers=[group.answers[index] for index in indices],
        rewards=[group.rewards[index] for index in indices],
        advantages=[group.advantages[index] for index in indices],
        compared=[group.compared[index] for index in indices] if group.compared else [],
    )
