"""From episodes to what each policy learns from: rewards become advantages, turns become groups."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from training_core.algorithms.advantages import Normalisation, has_variance, normalised_advantages
from training_core.config.run import RunConfig
from training_core.types import Episode, Group, Turn


@dataclass
class GroupCounts:
    """Groups of one role in an iteration."""

    total: int = 0
    zero_variance: int = 0
    """All candidates earned the same: nothing to learn."""
    too_easy: int = 0
    """Of those: the reward is above 0."""
    too_hard: int = 0
    """Of those: the reward is 0 or below."""


@dataclass
class GroupedBatch:
    """An iteration's groups by policy, and counts by role."""

    groups: dict[str, list[Group]]
    counts: dict[str, GroupCounts]


def make_groups(episodes: Sequence[Episode], config: RunConfig) -> GroupedBatch:
    """Fill every candidate's advantage in place and sort the trained roles' groups by policy.

    Normalisation over a batch is over all groups of a policy. Failed episodes teach what they had done before.
    """
    batch = GroupedBatch(
        groups={policy: [] for policy in config.trained_policies},
        counts={role: GroupCounts() for role in config.team.roles},
    )
    for policy in config.used_policies:
        _fill_policy(batch, policy, list(_turns(episodes, policy)), config)
    return batch


def _turns(episodes: Sequence[Episode], policy: str) -> Iterator[tuple[Episode, int, Turn]]:
    for episode in episodes:
        for place, turn in enumerate(episode.turns):
            if turn.policy == policy:
                yield episode, place, turn


def _fill_policy(
    batch: GroupedBatch, policy: str, turns: list[tuple[Episode, int, Turn]], config: RunConfig
) -> None:
    if not turns:
        return
    algorithm = config.algorithm
    rewards = np.array([c.reward for _, _, turn in turns for c in turn.candidates])
    sizes = [len(turn.candidates) for _, _, turn in turns]
    groups = np.repeat(np.arange(len(turns)), sizes)
    how = Normalisation(algorithm.mean_level, algorithm.std_level, algorithm.leave_one_out)
    advantages = np.split(normalised_advantages(rewards, groups, how), np.cumsum(sizes)[:-1])
    varied = has_variance(rewards, groups).tolist()
    for (episode, place, turn), values, varies in zip(turns, advantages, varied, strict=True):
        for candidate, advantage in zip(turn.candidates, values.tolist(), strict=True):
            candidate.advantage = advantage
        _count(batch.counts[turn.role], turn, varies=varies)
        if config.team.roles[turn.role].trained and (varies or not algorithm.drop_zero_variance):
            batch.groups[policy].append(_group(episode, place, turn, config))


def _count(counts: GroupCounts, turn: Turn, *, varies: bool) -> None:
    counts.total += 1
    if not varies:
        counts.zero_variance += 1
        easy = turn.candidates[0].reward > 0
        counts.too_easy += easy
        counts.too_hard += not easy


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
    )
