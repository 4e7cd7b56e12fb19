"""Convert episodes to training groups per policy: rewards become advantages, turns become groups."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import isfinite

import numpy as np

from training_core.algorithms.advantages import (
    Floats,
    Ints,
    Normalisation,
    normalised_advantages,
    telling_groups,
    whitened,
)
from training_core.algorithms.grouping import GroupCounts, GroupFilter, count_groups, left_out
from training_core.algorithms.reshaping import RESHAPERS, Moment, Shape, min_max
from training_core.algorithms.role_baselines import role_advantages
from training_core.config.algorithms import PolicyGradient, Rae, TokenReturns
from training_core.config.run import RunConfig
from training_core.errors import EnvironmentFailure
from training_core.types import Compared, Episode, Group, Turn


@dataclass
class GroupedBatch:
    """An iteration's groups by policy, and counts by role."""

    groups: dict[str, list[Group]]
    counts: dict[str, GroupCounts]
    baselines: dict[str, float]
    """Baselines by role after these episodes; for algorithm.type = "rae"."""


def make_groups(
    episodes: Sequence[Episode], config: RunConfig, baselines: Mapping[str, float] | None = None
) -> GroupedBatch:
    """Fill every candidate's advantage in place and sort the trained roles' groups by policy.

    Normalisation over a batch uses all groups that one policy is trained on; frozen roles are normalised separately,
    for display. With drop_zero_variance, groups without advantages (`telling_groups`) are excluded. Turns of failed
    episodes before the failure are used. Counts are by role, over all groups. `baselines` are those of the previous
    batch. Raises EnvironmentFailure if a reward is not finite.
    """
    _check(episodes)
    paid = _paid(episodes, config.algorithm)
    groups: dict[str, list[Group]] = {policy: [] for policy in config.trained_policies}
    batch = GroupedBatch(groups, counts={}, baselines=dict(baselines or {}))
    for role in config.team.roles:
        played = list(_places(episodes, {role}))
        if played:
            compared = _compare(played, paid)
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
            found = list(_advantaged(list(_places(episodes, roles)), paid, config, batch))
            if trained and policy in batch.groups:
                batch.groups[policy] = found
    return batch


Place = tuple[Episode, int]
"""An episode and the position of one of its turns."""
Paid = dict[tuple[str, int], list[float]]
"""(episode, position of the turn) -> rewards of its candidates, reshaped."""


def _places(episodes: Sequence[Episode], roles: set[str]) -> Iterator[Place]:
    """The turns of these roles."""
    return (
        (episode, place)
        for episode in episodes
        for place, turn in enumerate(episode.turns)
        if turn.role in roles
    )


def _paid(episodes: Sequence[Episode], algorithm: PolicyGradient) -> Paid:
    """The reshaped rewards, which are compared instead of the original ones."""
    shape = Shape(algorithm.reshape_discount, algorithm.reshape_threshold, algorithm.reshape_weight)
    paid: Paid = {}
    for episode in episodes:
        before: dict[str, float] = {}
        for place, turn in enumerate(episode.turns):
            moment = Moment(turn.index + 1, episode.turns[-1].index + 1, before.get(turn.role, 0.0))
            rewards = np.array([candidate.reward for candidate in turn.candidates])
            paid[episode.id, place] = RESHAPERS[algorithm.reshape](rewards, moment, shape).tolist()
            before[turn.role] = turn.candidates[turn.executed].reward
    return paid


def _advantaged(
    places: Sequence[Place], paid: Paid, config: RunConfig, batch: GroupedBatch
) -> Iterator[Group]:
    """Fill the advantages of these turns' candidates and count filtered groups; return the groups to train on."""
    if not places:
        return
    algorithm = config.algorithm
    found = _compare(places, paid)
    rewards = _reshaped(found, algorithm)
    how = normalisation(algorithm)
    telling = telling_groups(rewards, found.groups, how)
    weights = _tokens(places, found) if isinstance(algorithm, TokenReturns) else None
    advantages = normalised_advantages(rewards, found.groups, how, weights)
    if isinstance(algorithm, Rae):
        earners = [found.roles[group] for group in found.groups]
        advantages, batch.baselines = role_advantages(
            advantages, earners, batch.baselines, algorithm.baseline_decay
        )
    if algorithm.batch_whitening:
        live = telling[found.groups]
        advantages = whitened(advantages, live, unbiased=how.unbiased, weights=weights)
    out = left_out(rewards, found.groups, group_filter(algorithm))
    for role in (found.roles[group] for group in np.flatnonzero(out)):
        batch.counts[role].filtered += 1
    advantages[out[found.groups]] = 0.0
    learnt = ~out & telling if algorithm.drop_zero_variance else ~out
    each = advantages[found.owners].tolist()
    kept = learnt[found.groups][found.owners].tolist()
    compared = [
        Compared(unit, int(found.groups[unit]), float(rewards[unit])) for unit in found.owners.tolist()
    ]
    begin = 0
    for episode, place in places:
        turn = episode.turns[place]
        end = begin + len(turn.candidates)
        values, wanted, units = each[begin:end], kept[begin], compared[begin:end]
        begin = end
        for candidate, advantage in zip(turn.candidates, values, strict=True):
            candidate.advantage = advantage
        if wanted:
            yield _group(episode, place, turn, config, units)


def teaches(episodes: Sequence[Episode], config: RunConfig) -> bool:
    """Whether a trained role has a group in these episodes of one task to which `make_groups` would give advantages.

    Reward, reshaping and tolerance are those of the loss; filter_ratio, which compares the groups of a whole batch,
    is only applied by `make_groups`.
    """
    algorithm = config.algorithm
    roles = {name for name, role in config.team.roles.items() if role.trained}
    places = list(_places(episodes, roles))
    if not places:
        return False
    found = _compare(places, _paid(episodes, algorithm))
    rewards = _reshaped(found, algorithm)
    out = left_out(rewards, found.groups, replace(group_filter(algorithm), ratio=0.0))
    return bool((telling_groups(rewards, found.groups, normalisation(algorithm)) & ~out).any())


def normalisation(algorithm: PolicyGradient) -> Normalisation:
    """The normalisation of an algorithm's advantages."""
    return Normalisation(
        algorithm.mean_level,
        algorithm.std_level,
        algorithm.leave_one_out,
        algorithm.unbiased_std,
        algorithm.drop_zero_variance,
    )


def group_filter(algorithm: PolicyGradient) -> GroupFilter:
    """The group filter of an algorithm."""
    return GroupFilter(
        algorithm.group_filter,
        algorithm.filter_low,
        algorithm.filter_high,
        algorithm.filter_ratio,
        algorithm.unbiased_std,
    )


def _reshaped(found: "_Compared", algorithm: PolicyGradient) -> Floats:
    """(N,) compared rewards, reshaped over the whole group if the algorithm requests it."""
    return min_max(found.rewards, found.groups) if algorithm.reshape == "normalised" else found.rewards


def _check(episodes: Sequence[Episode]) -> None:
    for episode in episodes:
        for place, turn in enumerate(episode.turns):
            if not all(isfinite(candidate.reward) for candidate in turn.candidates):
                raise EnvironmentFailure(
                    f"episode {episode.id} ({episode.task}), turn {place}: the environment paid {turn.role} a "
                    "reward that is not finite"
                )


@dataclass(frozen=True)
class _Compared:
    """N compared units and their C candidates."""

    rewards: Floats
    """(N,)"""
    groups: Ints
    """(N,) integers from 0."""
    owners: Ints
    """(C,) index of the unit of each candidate, in order."""
    roles: list[str]
    """Role of each group."""


def _compare(places: Sequence[Place], paid: Paid) -> _Compared:
    """Compare the candidates of one turn with each other; or, if episodes have siblings, a role's total reward in
    each of them; or, with a turn_discount, the returns of their turns: a role's first turn with the siblings' first
    turns, and so on.
    """
    rewards: list[float] = []
    owners: list[int] = []
    groups: list[int] = []
    roles: list[str] = []
    numbers: dict[tuple[str, str], int] = {}
    whole: dict[tuple[str, str], int] = {}
    returns = _returns(places, paid)
    for episode, place in places:
        turn = episode.turns[place]
        if not episode.siblings:
            owners.extend(range(len(rewards), len(rewards) + len(turn.candidates)))
            rewards.extend(paid[episode.id, place])
            groups.extend([len(roles)] * len(turn.candidates))
            roles.append(turn.role)
            continue
        if (episode.id, place) in returns:
            number, gains = returns[episode.id, place]
            at_turn = (f"{episode.siblings}, turn {number}", turn.role)
            if at_turn not in numbers:
                numbers[at_turn] = len(roles)
                roles.append(turn.role)
            owners.extend(range(len(rewards), len(rewards) + len(gains)))
            rewards.extend(gains)
            groups.extend([numbers[at_turn]] * len(gains))
            continue
        seat = (episode.id, turn.role)
        if seat not in whole:
            whole[seat] = len(rewards)
            rewards.append(_earned(episode, turn.role, paid))
            kin = (episode.siblings, turn.role)
            if kin not in numbers:
                numbers[kin] = len(roles)
                roles.append(turn.role)
            groups.append(numbers[kin])
        owners.extend([whole[seat]] * len(turn.candidates))
    return _Compared(np.array(rewards), np.array(groups), np.array(owners), roles)


def _returns(places: Sequence[Place], paid: Paid) -> dict[tuple[str, int], tuple[int, list[float]]]:
    """(episode, position) -> (number of the turn among its role's, returns of its candidates), for episodes with a
    turn_discount.

    A candidate's return is its own reward and turn_discount times the return of the executed candidate of the role's next turn
    (AReaL's export_style = "individual" with its turn_discount).
    """
    found: dict[tuple[str, int], tuple[int, list[float]]] = {}
    later: dict[tuple[str, str], float] = {}
    count = Counter((episode.id, episode.turns[place].role) for episode, place in places)
    for episode, place in reversed(places):
        if episode.turn_discount is None or not episode.siblings:
            continue
        turn = episode.turns[place]
        seat = (episode.id, turn.role)
        rest = episode.turn_discount * later.get(seat, 0.0)
        gains = [reward + rest for reward in paid[episode.id, place]]
        later[seat] = gains[turn.executed]
        count[seat] -= 1
        found[episode.id, place] = (count[seat], gains)
    return found


def _tokens(places: Sequence[Place], found: _Compared) -> Floats:
    """(N,) number of trained tokens of each compared unit."""
    answers = [candidate.answer for episode, place in places for candidate in episode.turns[place].candidates]
    counts = [len(answer.learnt(answer.token_ids)) for answer in answers]
    return np.bincount(found.owners, weights=counts, minlength=len(found.rewards)).astype(np.float64)


def _earned(episode: Episode, role: str, paid: Paid) -> float:
    """A role's total reward in an episode."""
    return sum(
        paid[episode.id, place][turn.executed]
        for place, turn in enumerate(episode.turns)
        if turn.role == role
    )


def _group(episode: Episode, place: int, turn: Turn, config: RunConfig, compared: list[Compared]) -> Group:
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
        compared=compared,
    )
