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
        played = [turn for episode in episodes for turn in episode.turns if turn.role == role]
        batch.counts[role] = count_groups(*_rewards(played)) if played else GroupCounts()
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
    rewards, groups = _rewards([turn for _, _, turn in places])
    how = Normalisation(algorithm.mean_level, algorithm.std_level, algorithm.leave_one_out)
    found = normalised_advantages(rewards, groups, how)
    advantages = (whitened(found) if algorithm.batch_whitening else found).tolist()
    varied = has_variance(rewards, groups).tolist()
    begin = 0
    for (episode, place, turn), varies in zip(places, varied, strict=True):
        end = begin + len(turn.candidates)
        values = advantages[begin:end]
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


def _rewards(turns: Sequence[Turn]) -> tuple[Floats, Ints]:
    """Rewards (N,) of all candidates, and the number of each one's turn (N,)."""
    rewards = np.array([candidate.reward for turn in turns for candidate in turn.candidates])
    return rewards, np.repeat(np.arange(len(turns)), [len(turn.candidates) for turn in turns])


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
