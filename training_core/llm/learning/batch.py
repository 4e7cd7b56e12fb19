"""From episodes to what each policy learns from: rewards become advantages, turns become groups."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import isfinite

import numpy as np

from training_core.algorithms.advantages import (
    Floats,
    Ints,
    Normalisation,
    has_variance,
    normalised_advantages,
    whitened,
)
from training_core.algorithms.grouping import GroupCounts, count_groups
from training_core.config.run import RunConfig
from training_core.errors import EnvironmentFailure
from training_core.types import Episode, Group, Turn


@dataclass
class GroupedBatch:
    """An iteration's groups by policy, and counts by role."""

    groups: dict[str, list[Group]]
    counts: dict[str, GroupCounts]


def make_groups(episodes: Sequence[Episode], config: RunConfig) -> GroupedBatch:
    """Fill every candidate's advantage in place and sort the trained roles' groups by policy.

    Normalisation over a batch is over all groups that one policy learns from; roles that are frozen are normalised by
    themselves, to be looked at. With drop_zero_variance, groups without variance whose advantages are all 0 are left
    out. Failed episodes teach what they had done before. Counts are by role, of all groups. Raises EnvironmentFailure
    where a reward is no finite number.
    """
    _check(episodes)
    batch = GroupedBatch(groups={policy: [] for policy in config.trained_policies}, counts={})
    for role in config.team.roles:
        played = [(episode, turn) for episode in episodes for turn in episode.turns if turn.role == role]
        if played:
            compared = _compare(played)
            batch.counts[role] = count_groups(compared.rewards, compared.groups)
        else:
            batch.counts[role] = GroupCounts()
    for policy in config.used_policies:
        for trained in (True, False):
            roles = {
                name
                for name, role in config.team.roles.items()
                if role.policy == policy and role.trained == trained
            }
            found = list(_advantaged(episodes, roles, config))
            if trained and policy in batch.groups:
                batch.groups[policy] = found
    return batch


def _advantaged(episodes: Sequence[Episode], roles: set[str], config: RunConfig) -> Iterator[Group]:
    """Fill the advantages of these roles' candidates; the groups to learn from."""
    algorithm = config.algorithm
    places = [
        (episode, place, turn)
        for episode in episodes
        for place, turn in enumerate(episode.turns)
        if turn.role in roles
    ]
    if not places:
        return
    found = _compare([(episode, turn) for episode, _, turn in places])
    how = Normalisation(algorithm.mean_level, algorithm.std_level, algorithm.leave_one_out)
    advantages = normalised_advantages(found.rewards, found.groups, how)
    if algorithm.batch_whitening:
        advantages = whitened(advantages)
    each = advantages[found.owners].tolist()
    varied = has_variance(found.rewards, found.groups)[found.groups][found.owners].tolist()
    begin = 0
    for episode, place, turn in places:
        end = begin + len(turn.candidates)
        values, varies = each[begin:end], varied[begin]
        begin = end
        for candidate, advantage in zip(turn.candidates, values, strict=True):
            candidate.advantage = advantage
        if varies or any(values) or not algorithm.drop_zero_variance:
            yield _group(episode, place, turn, config)


def _check(episodes: Sequence[Episode]) -> None:
    for episode in episodes:
        for place, turn in enumerate(episode.turns):
            if not all(isfinite(candidate.reward) for candidate in turn.candidates):
                raise EnvironmentFailure(
                    f"episode {episode.id} ({episode.task}), turn {place}: the environment paid {turn.role} a reward that "
                    "is no finite number"
                )


@dataclass(frozen=True)
class _Compared:
    """N things that are compared, and the C candidates that stand for them."""

    rewards: Floats
    """(N,)"""
    groups: Ints
    """(N,) whole numbers from 0."""
    owners: Ints
    """(C,) which of the N each candidate, in order, belongs to."""


def _compare(turns: Sequence[tuple[Episode, Turn]]) -> _Compared:
    """Candidates of one turn with one another; or, where episodes have siblings, what a role earned in each of them."""
    rewards: list[float] = []
    owners: list[int] = []
    groups: list[int] = []
    numbers: dict[tuple[str, str], int] = {}
    whole: dict[tuple[str, str], int] = {}
    count = 0
    for episode, turn in turns:
        if not episode.siblings:
            owners.extend(range(len(rewards), len(rewards) + len(turn.candidates)))
            rewards.extend(candidate.reward for candidate in turn.candidates)
            groups.extend([count] * len(turn.candidates))
            count += 1
            continue
        seat = (episode.id, turn.role)
        if seat not in whole:
            whole[seat] = len(rewards)
            rewards.append(episode.role_return(turn.role))
            kin = (episode.siblings, turn.role)
            if kin not in numbers:
                numbers[kin] = count
                count += 1
            groups.append(numbers[kin])
        owners.extend([whole[seat]] * len(turn.candidates))
    return _Compared(np.array(rewards), np.array(groups), np.array(owners))


def _group(episode: Episode, place: int, turn: Turn, config: RunConfig) -> Group:
    sampling = config.team.roles[turn.role].sampling
    return Group(
        episode=episode.id,
        turn=place,
        prompt_ids=turn.prompt_ids,
        answers=[candidate.answer for candidate in turn.candidates],
        rewards=[candidate.reward for candidate in turn.candidates],
        advantages=[candidate.advantage or 0.0 for candidate in turn.candidates],
        temperature=sampling.temperature,
        top_k=sampling.top_k,
        top_p=sampling.top_p,
        max_tokens=sampling.max_tokens,
    )
