"""Convert episodes to training groups per policy: rewards become advantages, turns become groups."""

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import isfinite
from pathlib import Path

import numpy as np

from training_core.algorithms.at_grpo import (
    Floats,
    GroupCounts,
    GroupFilter,
    Ints,
    count_groups,
    informative_groups,
    left_out,
)
from training_core.algorithms.config import PolicyGradient
from training_core.algorithms.hooks import (
    AlgorithmHooks,
    ComparedRewards,
    Moment,
    checked_numbers,
    normalisation,
)
from training_core.algorithms.registry import make_hooks
from training_core.checkpoints import write_errors_explained
from training_core.config.experiment import ExperimentConfig
from training_core.errors import CheckpointError, EnvironmentFailure
from training_core.types import Compared, Episode, Group, Turn

BASELINES_FILE = "baselines.json"
"""The roles' baselines in a checkpoint (algorithm.type = "rae")."""


@dataclass
class GroupedBatch:
    """An iteration's groups by policy, and counts by role."""

    groups: dict[str, list[Group]]
    counts: dict[str, GroupCounts]
    baselines: dict[str, float]
    """Baselines of the algorithm after these episodes; RAE's are by role."""


def make_groups(
    episodes: Sequence[Episode], config: ExperimentConfig, baselines: Mapping[str, float] | None = None
) -> GroupedBatch:
    """Fill every candidate's advantage in place and sort the trained roles' groups by policy.

    A failed episode is in no group: what broke is not the policy's fault. Nor is a candidate without a reward, or the
    turns of its role in that episode if whole episodes are compared. Their advantages are 0.

    Normalisation over a batch uses all groups that one policy is trained on; frozen roles are normalised separately,
    for display. With drop_zero_variance, groups without advantages (`informative_groups`) are excluded. Counts are by
    role, over all groups. `baselines` are those of the previous batch. Raises EnvironmentFailure if a reward is not
    finite, ConfigError if custom code returns a wrong shape.
    """
    for turn in (turn for episode in episodes for turn in episode.turns):
        for candidate in turn.candidates:
            candidate.advantage = 0.0
    episodes = _completed(episodes)
    _check_rewards(episodes)
    hooks = make_hooks(config.algorithm)
    turn_rewards = _turn_rewards(episodes, hooks)
    groups: dict[str, list[Group]] = {policy: [] for policy in config.trained_policies}
    batch = GroupedBatch(groups, counts={}, baselines=dict(baselines or {}))
    for role in config.team.roles:
        role_turns = list(_turns_of(episodes, {role}))
        if role_turns:
            compared = _compare(role_turns, turn_rewards)
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
            turns = list(_turns_of(episodes, roles))
            trained_groups = list(_fill_advantages(turns, turn_rewards, config, hooks, batch))
            if trained and policy in batch.groups:
                batch.groups[policy] = trained_groups
    return batch


TurnPosition = tuple[Episode, int]
"""An episode and the position of one of its turns."""
TurnRewards = dict[tuple[str, int], list[float]]
"""(episode, position of the turn) -> rewards of its scored candidates, reshaped."""


def _completed(episodes: Sequence[Episode]) -> list[Episode]:
    """The episodes that did not fail."""
    return [episode for episode in episodes if not episode.failed]


def _turns_of(episodes: Sequence[Episode], roles: set[str]) -> Iterator[TurnPosition]:
    """The turns of these roles whose candidates are compared, and have tokens to train on."""
    for episode in episodes:
        unknown = {
            turn.role
            for turn in episode.turns
            if episode.siblings and len(turn.scored) < len(turn.candidates)
        }
        for index, turn in enumerate(episode.turns):
            answered = any(candidate.answer.trained_tokens for candidate in turn.scored)
            if turn.role in roles - unknown and answered and turn.compared:
                yield episode, index


def _turn_rewards(episodes: Sequence[Episode], hooks: AlgorithmHooks) -> TurnRewards:
    """The reshaped rewards, which are compared instead of the original ones."""
    turn_rewards: TurnRewards = {}
    for episode in episodes:
        before: dict[str, float] = {}
        for index, turn in enumerate(episode.turns):
            moment = Moment(turn.index + 1, episode.turns[-1].index + 1, before.get(turn.role, 0.0))
            rewards = np.array([candidate.compared for candidate in turn.scored])
            reshaped = hooks.turn_rewards(rewards, moment) if len(rewards) else rewards
            checked = checked_numbers(reshaped, len(rewards), hooks, "turn_rewards")
            turn_rewards[episode.id, index] = checked.tolist()
            if turn.candidates[turn.executed].scored and turn.is_trained:
                before[turn.role] = turn.candidates[turn.executed].compared
    return turn_rewards


def _fill_advantages(
    turns: Sequence[TurnPosition],
    turn_rewards: TurnRewards,
    config: ExperimentConfig,
    hooks: AlgorithmHooks,
    batch: GroupedBatch,
) -> Iterator[Group]:
    """Fill the advantages of these turns' candidates and count filtered groups; return the groups to train on."""
    if not turns:
        return
    algorithm = config.algorithm
    units = _compare(turns, turn_rewards)
    rewards = _reshaped(units, hooks)
    informative = informative_groups(rewards, units.groups, normalisation(algorithm))
    tokens = _trained_tokens(turns, units)
    unit_rewards = ComparedRewards(rewards, units.groups, units.roles, informative, tokens)
    advantages = hooks.advantages(unit_rewards, batch.baselines)
    advantages = checked_numbers(advantages, len(rewards), hooks, "advantages").copy()
    excluded = left_out(rewards, units.groups, group_filter(algorithm))
    for role in (units.roles[group] for group in np.flatnonzero(excluded)):
        batch.counts[role].filtered += 1
    advantages[excluded[units.groups]] = 0.0
    learnt = ~excluded & informative if algorithm.drop_zero_variance else ~excluded
    candidate_advantages = advantages[units.owners].tolist()
    is_trained = learnt[units.groups][units.owners].tolist()
    compared = [
        Compared(unit, int(units.groups[unit]), float(rewards[unit])) for unit in units.owners.tolist()
    ]
    begin = 0
    for episode, index in turns:
        turn = episode.turns[index]
        end = begin + len(turn.scored)
        values, is_kept, comparisons = candidate_advantages[begin:end], is_trained[begin], compared[begin:end]
        begin = end
        for candidate, advantage in zip(turn.scored, values, strict=True):
            candidate.advantage = advantage
        if is_kept:
            yield _group(episode, index, turn, config, comparisons)


def is_informative(episodes: Sequence[Episode], config: ExperimentConfig) -> bool:
    """Whether a trained role has a group in these episodes of one task to which `make_groups` would give advantages.

    Reward, reshaping and tolerance are those of the loss; filter_ratio, which compares the groups of a whole batch,
    is only applied by `make_groups`.
    """
    algorithm = config.algorithm
    roles = {name for name, role in config.team.roles.items() if role.trained}
    episodes = _completed(episodes)
    turns = list(_turns_of(episodes, roles))
    if not turns:
        return False
    hooks = make_hooks(algorithm)
    units = _compare(turns, _turn_rewards(episodes, hooks))
    rewards = _reshaped(units, hooks)
    excluded = left_out(rewards, units.groups, replace(group_filter(algorithm), ratio=0.0))
    return bool((informative_groups(rewards, units.groups, normalisation(algorithm)) & ~excluded).any())


def group_filter(algorithm: PolicyGradient) -> GroupFilter:
    """The group filter of an algorithm."""
    return GroupFilter(
        algorithm.group_filter,
        algorithm.filter_low,
        algorithm.filter_high,
        algorithm.filter_ratio,
        algorithm.unbiased_std,
    )


def _reshaped(units: "_ComparedUnits", hooks: AlgorithmHooks) -> Floats:
    """(N,) compared rewards, reshaped over the whole group if the algorithm requests it."""
    rewards = hooks.group_rewards(units.rewards, units.groups)
    return checked_numbers(rewards, len(units.rewards), hooks, "group_rewards")


def _check_rewards(episodes: Sequence[Episode]) -> None:
    for episode in episodes:
        for index, turn in enumerate(episode.turns):
            if not all(isfinite(candidate.compared) for candidate in turn.candidates):
                raise EnvironmentFailure(
                    f"episode {episode.id} ({episode.task}), turn {index}: the environment paid {turn.role} a "
                    "reward that is not finite"
                )


@dataclass(frozen=True)
class _ComparedUnits:
    """N compared units and their C scored candidates."""

    rewards: Floats
    """(N,)"""
    groups: Ints
    """(N,) integers from 0."""
    owners: Ints
    """(C,) index of the unit of each candidate, in order."""
    roles: list[str]
    """Role of each group."""


def _compare(turns: Sequence[TurnPosition], turn_rewards: TurnRewards) -> _ComparedUnits:
    """Compare the candidates of one turn with each other; or, if episodes have siblings, a role's total reward in
    each of them; or, with a turn_discount, the returns of their turns: a role's first turn with the siblings' first
    turns, and so on.
    """
    rewards: list[float] = []
    owners: list[int] = []
    groups: list[int] = []
    roles: list[str] = []
    unit_numbers: dict[tuple[object, ...], int] = {}
    group_numbers: dict[tuple[object, ...], int] = {}
    returns = _returns(turns, turn_rewards)
    for episode, index in turns:
        turn, position = episode.turns[index], (episode.id, index)
        group: tuple[object, ...] = position
        values = turn_rewards[position]
        units: list[tuple[object, ...]] = [(position, number) for number in range(len(values))]
        if position in returns:
            number, values = returns[position]
            group = (episode.siblings, turn.role, number)
        elif episode.siblings:
            group = (episode.siblings, turn.role)
            units = [(episode.id, turn.role)] * len(turn.candidates)
            values = [_role_reward(episode, turn.role, turn_rewards)] * len(units)
        for unit, value in zip(units, values, strict=True):
            if unit not in unit_numbers:
                unit_numbers[unit] = len(rewards)
                rewards.append(value)
                if group not in group_numbers:
                    group_numbers[group] = len(roles)
                    roles.append(turn.role)
                groups.append(group_numbers[group])
            owners.append(unit_numbers[unit])
    return _ComparedUnits(np.array(rewards), np.array(groups), np.array(owners), roles)


def _returns(
    turns: Sequence[TurnPosition], turn_rewards: TurnRewards
) -> dict[tuple[str, int], tuple[int, list[float]]]:
    """(episode, position) -> (number of the turn among its role's, returns of its candidates), for episodes with a
    turn_discount.

    A candidate's return is its own reward and turn_discount times the return of the executed candidate of the role's next turn
    (AReaL's export_style = "individual" with its turn_discount).
    """
    by_turn: dict[tuple[str, int], tuple[int, list[float]]] = {}
    next_returns: dict[tuple[str, str], float] = {}
    count = Counter((episode.id, episode.turns[index].role) for episode, index in turns)
    for episode, index in reversed(turns):
        if episode.turn_discount is None or not episode.siblings:
            continue
        turn = episode.turns[index]
        key = (episode.id, turn.role)
        rest = episode.turn_discount * next_returns.get(key, 0.0)
        candidate_returns = [reward + rest for reward in turn_rewards[episode.id, index]]
        next_returns[key] = candidate_returns[turn.executed]
        count[key] -= 1
        by_turn[episode.id, index] = (count[key], candidate_returns)
    return by_turn


def _trained_tokens(turns: Sequence[TurnPosition], units: _ComparedUnits) -> Floats:
    """(N,) number of trained tokens of each compared unit."""
    answers = [candidate.answer for episode, index in turns for candidate in episode.turns[index].scored]
    counts = [answer.trained_tokens for answer in answers]
    return np.bincount(units.owners, weights=counts, minlength=len(units.rewards)).astype(np.float64)


def _role_reward(episode: Episode, role: str, turn_rewards: TurnRewards) -> float:
    """A role's total reward in an episode."""
    return sum(
        turn_rewards[episode.id, index][turn.executed]
        for index, turn in enumerate(episode.turns)
        if turn.role == role
    )


def _group(
    episode: Episode, index: int, turn: Turn, config: ExperimentConfig, compared: list[Compared]
) -> Group:
    sampling = config.team.roles[turn.role].sampling
    return Group(
        episode=episode.id,
        turn=index,
        prompt_ids=turn.prompt_ids,
        answers=[candidate.answer for candidate in turn.scored],
        rewards=[candidate.compared for candidate in turn.scored],
        advantages=[candidate.advantage or 0.0 for candidate in turn.scored],
        temperature=sampling.temperature,
        top_k=sampling.top_k,
        top_p=sampling.top_p,
        max_tokens=sampling.max_tokens,
        compared=compared,
        role=turn.role,
    )


def save_baselines(checkpoint: Path, baselines: Mapping[str, float]) -> None:
    """Write them (role -> baseline) into a checkpoint's draft. Raises CheckpointError."""
    with write_errors_explained(f"the checkpoint {checkpoint}"):
        (checkpoint / BASELINES_FILE).write_text(json.dumps(baselines))


def read_baselines(checkpoint: Path) -> dict[str, float]:
    """The stored baselines, bit for bit; empty if another algorithm wrote the checkpoint. Raises CheckpointError."""
    path = checkpoint / BASELINES_FILE
    if not path.is_file():
        return {}
    try:
        return {str(role): float(value) for role, value in json.loads(path.read_text()).items()}
    except (ValueError, TypeError, AttributeError) as error:
        raise CheckpointError(
            f"{path} is damaged: {error}", remedy="resume from another checkpoint"
        ) from error
