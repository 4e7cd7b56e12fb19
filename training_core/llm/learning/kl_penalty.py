"""KL penalties and discounts in the reward, applied before normalisation.

T trained tokens of the answers, N compared units (answers, or episodes of a role), b = kl_coefficient, k_t the KL
estimate of token t.

A whole sequence is one action (RLOO, arXiv 2402.14740, equations 1 and 6, and every algorithm that compares sequences):

    R = r - b * sum of k_t over the unit's tokens,     A = R normalised as the config says, the same for all its tokens

A token is an action (REINFORCE++, arXiv 2501.03262, section 3):

    G_t = g^(T - t) * r - sum over s >= t of g^(s - t) * b * k_s,     A_t = G_t normalised over the batch's tokens

where the form with a baseline first subtracts the group's mean from r, and g is `discount`. PPO subtracts b * k_t
from the token's reward before its critic's GAE (critic.py). Groups without advantages by their rewards without the
penalty have advantage 0.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from training_core.algorithms.at_grpo import (
    EPSILON,
    Floats,
    Normalisation,
    informative_groups,
    normalised_advantages,
)
from training_core.algorithms.config import ActorCritic, TokenReturns
from training_core.algorithms.gae import last_token_rewards, token_advantages
from training_core.algorithms.hooks import AlgorithmHooks, ComparedRewards, checked_numbers, normalisation
from training_core.algorithms.registry import Algorithm
from training_core.llm.learning.micro_batches import MicroBatch
from training_core.llm.learning.processes import Processes
from training_core.types import Compared, Group


def has_kl_reward(algorithm: Algorithm) -> bool:
    """Whether the KL divergence from the base model is subtracted from the rewards."""
    return algorithm.kl_coefficient > 0 and algorithm.kl_in == "reward"


def changes_rewards(algorithm: Algorithm) -> bool:
    """Whether the learner normalises advantages itself, because its computations change the rewards."""
    discounts = isinstance(algorithm, TokenReturns) and algorithm.discount < 1.0
    return not isinstance(algorithm, ActorCritic) and (has_kl_reward(algorithm) or discounts)


def apply_kl_penalty(
    pieces: Sequence[MicroBatch],
    groups: Sequence[Group],
    hooks: AlgorithmHooks,
    processes: Processes,
    device: torch.device,
) -> None:
    """Recompute the advantages of an update's micro-batches, over all processes, from their changed rewards."""
    if not groups:
        return
    batch = _RewardUnits(groups)
    algorithm = hooks.algorithm
    informative = informative_groups(batch.rewards, batch.groups, normalisation(algorithm))
    if isinstance(algorithm, TokenReturns):
        _apply_token_returns(pieces, batch, informative[batch.groups], algorithm, processes, device)
        return
    penalties = torch.zeros(len(batch.rewards), dtype=torch.float64, device=device)
    for piece in pieces:
        if piece.costs is not None and not piece.idle:
            penalties.index_add_(0, batch.of_tokens(piece), piece.costs.double())
    penalised = batch.rewards - processes.all_reduce(penalties).cpu().numpy()
    compared = ComparedRewards(batch.rewards, batch.groups, batch.roles, informative, batch.tokens)
    result = hooks.penalised_advantages(compared, penalised, batch.advantages)
    advantages = checked_numbers(result, len(penalised), hooks, "penalised_advantages")
    values = torch.from_numpy(advantages).float().to(device)
    for piece in pieces:
        piece.advantages = values[batch.of_tokens(piece)]


class _RewardUnits:
    """The N units of a batch, and the unit of each answer."""

    def __init__(self, groups: Sequence[Group]) -> None:
        self.unit_of: dict[tuple[int, int], int] = {}
        """(id of the group, index of the answer in it) -> unit"""
        unit_numbers: dict[tuple[int, int], int] = {}
        group_numbers: dict[tuple[int, int], int] = {}
        rewards: list[float] = []
        owners: list[int] = []
        advantages: list[float] = []
        tokens: list[int] = []
        self.roles: list[str] = []
        """Role of each group of units."""
        for index, group in enumerate(groups):
            for answer, comparison in enumerate(group.compared or _turn_units(group)):
                unit_key, group_key = (
                    ((-1, comparison.unit), (-1, comparison.group))
                    if group.compared
                    else ((index, answer), (index, 0))
                )
                if unit_key not in unit_numbers:
                    unit_numbers[unit_key] = len(rewards)
                    rewards.append(comparison.reward)
                    owners.append(group_numbers.setdefault(group_key, len(group_numbers)))
                    advantages.append(group.advantages[answer])
                    tokens.append(0)
                    if len(group_numbers) > len(self.roles):
                        self.roles.append(group.role)
                unit = self.unit_of[id(group), answer] = unit_numbers[unit_key]
                tokens[unit] += group.answers[answer].trained_tokens
        self.rewards: Floats = np.array(rewards)
        self.groups = np.array(owners, dtype=np.int64)
        self.advantages: Floats = np.array(advantages)
        self.tokens: Floats = np.array(tokens, dtype=np.float64)

    def of_answers(self, piece: MicroBatch) -> Tensor:
        """(R,) the unit of each answer."""
        units = [self.unit_of[id(group), index] for group, index in piece.answers]
        return torch.tensor(units, dtype=torch.int64, device=piece.advantages.device)

    def of_tokens(self, piece: MicroBatch) -> Tensor:
        """(T,) the unit of each token."""
        return self.of_answers(piece).repeat_interleave(piece.lengths, output_size=len(piece.advantages))


def _turn_units(group: Group) -> list[Compared]:
    return [Compared(index, 0, reward) for index, reward in enumerate(group.rewards)]


def _apply_token_returns(
    pieces: Sequence[MicroBatch],
    batch: _RewardUnits,
    informative: NDArray[np.bool_],
    algorithm: TokenReturns,
    processes: Processes,
    device: torch.device,
) -> None:
    """REINFORCE++: returns of tokens, normalised over the tokens of the whole batch."""
    settings = normalisation(algorithm)
    within = replace(
        settings,
        mean_level="group" if settings.mean_level == "group" else "none",
        std_level="group" if settings.std_level == "group" else "none",
    )
    scores = torch.from_numpy(normalised_advantages(batch.rewards, batch.groups, within)).to(device)
    unit_mask = torch.from_numpy(informative).to(device)
    masks = []
    for piece in pieces:
        rewards = last_token_rewards(scores[batch.of_answers(piece)].float(), piece.lengths)
        rewards = rewards if piece.costs is None else rewards - piece.costs
        masks.append(unit_mask[batch.of_tokens(piece)])
        returns = token_advantages(rewards, torch.zeros_like(rewards), piece.lengths, algorithm.discount, 1.0)
        piece.advantages = returns * masks[-1]
    centre, divide = settings.mean_level == "batch", settings.std_level == "batch"
    if centre or divide:
        _standardise(pieces, masks, processes, device, settings, centre=centre, divide=divide)
    if algorithm.batch_whitening:
        settings = replace(settings, leave_one_out=False)
        _standardise(pieces, masks, processes, device, settings, centre=True, divide=True)


def _standardise(
    pieces: Sequence[MicroBatch],
    masks: Sequence[Tensor],
    processes: Processes,
    device: torch.device,
    settings: Normalisation,
    *,
    centre: bool,
    divide: bool,
) -> None:
    """Subtract the mean over all processes' live tokens from advantages, and divide them by their standard deviation."""
    sums = torch.zeros(3, dtype=torch.float64, device=device)
    for piece, mask in zip(pieces, masks, strict=True):
        if not piece.idle:
            values = piece.advantages[mask].double()
            sums += torch.stack([values.new_tensor(len(values)), values.sum(), values.square().sum()])
    count, total, squares = processes.all_reduce(sums).tolist()
    if count < 2:
        return
    mean = total / count
    variance = max(squares / count - mean**2, 0.0)
    is_constant = variance <= (1e-6 * mean) ** 2  # equal except for rounding: the deviation is set to 1
    std = (
        (variance * count / (count - settings.unbiased)) ** 0.5 + EPSILON
        if divide and not is_constant
        else 1.0
    )
    factor = count / (count - 1) if centre and settings.leave_one_out else 1.0
    for piece, mask in zip(pieces, masks, strict=True):
        moved = piece.advantages - mean if centre else piece.advantages
        piece.advantages = moved * factor / std * mask
