"""The version check on data: what is older than the policy is refused by name, or left out and counted."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from training_core.errors import StalePolicy
from training_core.types import Answer, Group


@dataclass(frozen=True)
class Checked:
    """Groups that may be learnt from, and what was seen."""

    groups: list[Group]
    dropped: int
    """Answers left out."""
    answers: int
    """Answers looked at."""
    lag: int
    """Sum over all answers of how many versions old their oldest token is."""


def check_versions(
    groups: Sequence[Group], version: int, policy: str, stale: Literal["error", "drop"], bound: int = 0
) -> Checked:
    """Compare every token's version with the policy's: it may be `bound` older, never newer.

    Raises StalePolicy when stale = "error".
    """
    kept: list[Group] = []
    answers = lag = dropped = 0
    for group in groups:
        lags = [_lag(answer, version) for answer in group.answers]
        answers += len(lags)
        lag += sum(abs(item) for item in lags)
        fresh = [place for place, item in enumerate(lags) if 0 <= item <= bound]
        if len(fresh) < len(lags) and stale == "error":
            found = sorted(
                {number for answer in group.answers for number in answer.learnt(answer.versions)} - {version}
            )
            raise StalePolicy(
                f"policy {policy!r} is at version {version}, but episode {group.episode}, turn {group.turn} has "
                f"tokens of version {', '.join(map(str, found))}, and rollout.staleness is {bound}; collect again, "
                'or set rollout.stale = "drop" to leave such answers out'
            )
        dropped += len(lags) - len(fresh)
        if len(fresh) == len(lags):
            kept.append(group)
        elif fresh:
            kept.append(_only(group, fresh))
    return Checked(kept, dropped, answers, lag)


def check_weights(have: int, want: int, policy: str, worker: str) -> None:
    """Before a rollout: the weights must be of the version asked for. Raises StalePolicy."""
    if have != want:
        raise StalePolicy(
            f"{worker} holds version {have} of policy {policy!r}, but version {want} was asked for; "
            "publish the weights before collecting"
        )


def _lag(answer: Answer, version: int) -> int:
    """Versions between the policy and the answer's oldest token; negative where a token is newer than the policy."""
    lags = [version - number for number in answer.learnt(answer.versions)]
    return min(lags) if lags and min(lags) < 0 else max(lags, default=0)


def _only(group: Group, places: list[int]) -> Group:
    return replace(
        group,
        answers=[group.answers[place] for place in places],
        rewards=[group.rewards[place] for place in places],
        advantages=[group.advantages[place] for place in places],
        compared=[group.compared[place] for place in places] if group.compared else [],
    )
