"""KL penalties and discounts in the reward, applied before normalisation.

T trained tokens of the answers, N compared units (answers, or episodes of a role), b = kl_coefficient, k_t the KL
estimate of token t.

A whole sequence is one action (RLOO, arXiv 2402.14740, equations 1 and 6, and every algorithm that compares sequences):

    R = r - b * sum of k_t over the unit's tokens,     A = R normalised as the config says, the same for all its tokens

Algorithms in which a token is an action subtract b * k_t from the token's reward (token_advantages.py). Groups without
advantages by their rewards without the penalty have advantage 0. A penalty in the loss is added in learner.py.
"""

from collections.abc import Sequence

import torch

from training_core.algorithms.at_grpo import (
    informative_groups,
)
from training_core.algorithms.config import ActorCritic, TokenReturns
from training_core.algorithms.hooks import AlgorithmHooks, ComparedRewards, checked_numbers, normalisation
from training_core.algorithms.registry import Algorithm
from training_core.llm.learning.optimiser import Processes
from training_core.llm.learning.packing import MicroBatch
from training_core.llm.learning.token_advantages import RewardUnits, apply_token_returns
from training_core.types import Group


def has_kl_reward(algorithm: Algorithm) -> bool:
    """Whether the KL divergence from the base model is subtracted from the rewards."""
    return algorithm.kl_coefficient > 0 and algorithm.kl_in == "reward"


def changes_rewards(algorithm: Algorithm) -> bool:
    """Whether the learner normalises advantages itself, because its computations change the rewards."""
    discounts = isinstance(algorithm, TokenReturns) and algorithm.discount < 1.0
    return not isinstance(algorithm, ActorCritic) and (has_kl_reward(algorithm) or discounts)


def needs_initial_pass(algorithm: Algorithm) -> bool:
    """Whether the update starts with a pass over all data by the policy at its start."""
    return isinstance(algorithm, ActorCritic) or algorithm.correction != "none" or has_kl_reward(algorithm)


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
    units = RewardUnits(groups)
    informative = informative_groups(units.rewards, units.groups, normalisation(hooks.algorithm))
    if isinstance(hooks.algorithm, TokenReturns):
        apply_token_returns(pieces, units, informative, hooks.algorithm, processes, device)
        return
    penalties = torch.zeros(len(units.rewards), dtype=torch.float64, device=device)
    for piece in pieces:
        if piece.costs is not None and not piece.idle:
            penalties.index_add_(0, units.of_tokens(piece), piece.costs.double())
    penalised = units.rewards - processes.all_reduce(penalties).cpu().numpy()
    compared = ComparedRewards(units.rewards, units.groups, units.roles, informative, units.tokens)
    result = hooks.penalised_advantages(compared, penalised, units.advantages)
    advantages = checked_numbers(result, len(penalised), hooks, "penalised_advantages")
    values = torch.from_numpy(advantages).float().to(device)
    for piece in pieces:
        piece.advantages = values[units.of_tokens(piece)]
