"""Advantages that the learner computes itself: KL penalties and discounts in the reward, REINFORCE++'s returns, PPO's critic.

T response tokens, U positions that predict them, R answers, N compared units (answers, or episodes of a role), H hidden
size, b = kl_coefficient, k_t the KL estimate of token t, g = discount.

A whole sequence is one action (RLOO, arXiv 2402.14740, equations 1 and 6, and every algorithm that compares sequences):

    R = r - b * sum of k_t over the unit's tokens,     A = R normalised as the config says, the same for all its tokens

A token is an action (REINFORCE++, arXiv 2501.03262, section 3):

    G_t = g^(T - t) * r - sum over s >= t of g^(s - t) * b * k_s,     A_t = G_t normalised over the batch's tokens

where the form with a baseline first subtracts the group's mean from r. PPO subtracts b * k_t from the token's reward
before its critic's GAE. Groups without advantages by their rewards without the penalty have advantage 0. A penalty in
the loss is added in learner.py.

The critic is a linear head on the policy's last hidden states that predicts the remaining reward of a response. The
trunk is the policy's, so the value loss also trains it. The head is fp32, has its own AdamW and is initialised to zero,
so that the first values are 0 and the first advantages are the rewards.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from transformers import PreTrainedModel

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
from training_core.algorithms.losses import value_loss
from training_core.algorithms.registry import Algorithm
from training_core.errors import LearnerFailure
from training_core.llm.learning.learner_config import Optimisation
from training_core.llm.learning.optimiser import SINGLE_PROCESS, Optimiser, Processes
from training_core.llm.learning.packing import MicroBatch
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


def compute_advantages(
    pieces: Sequence[MicroBatch],
    groups: Sequence[Group],
    hooks: AlgorithmHooks,
    critic: "Critic | None",
    processes: Processes,
    device: torch.device,
) -> float | None:
    """Replace the advantages of an update's micro-batches, over all processes, where the learner's computations change
    them. Returns the share of the returns' variance that a critic's values explain (None if returns do not vary).
    """
    algorithm = hooks.algorithm
    if critic:
        return critic.compute_advantages(pieces, device)
    if not groups or not changes_rewards(algorithm):
        return None
    units = RewardUnits(groups)
    informative = informative_groups(units.rewards, units.groups, normalisation(algorithm))
    if isinstance(algorithm, TokenReturns):
        _apply_token_returns(pieces, units, informative, algorithm, processes, device)
        return None
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
    return None


HEAD, MOMENTS = "head.", "moments."
"""Prefixes of the names of a checkpoint's tensors."""


class Critic:
    """The value head, its optimiser, and the advantages and losses from its values."""

    def __init__(
        self,
        model: PreTrainedModel,
        algorithm: ActorCritic,
        settings: Optimisation,
        processes: Processes = SINGLE_PROCESS,
    ) -> None:
        self.algorithm = algorithm
        self.processes = processes
        width = int(model.get_output_embeddings().weight.shape[1])
        self.head = nn.Linear(width, 1, device=model.device)
        nn.init.zeros_(self.head.weight)
        nn.init.zeros_(self.head.bias)
        self.optimiser = Optimiser(self.head, settings, processes)
        self.optimiser.prepare(algorithm.value_learning_rate)

    def values(self, hidden: Tensor, piece: MicroBatch) -> Tensor:
        """Values (T,) of the state before each token, from hidden states (U, H)."""
        values: Tensor = self.head(hidden.float()).squeeze(-1)
        return values[piece.batch.node_indices]

    def compute_advantages(self, pieces: Sequence[MicroBatch], device: torch.device) -> float | None:
        """Token advantages by GAE, with the answers' current advantages as their rewards less `costs`; normalised over
        all of an update's tokens, if configured. Returns the share of the returns' variance that the values explain.
        """
        algorithm = self.algorithm
        sums = torch.zeros(5, dtype=torch.float64, device=device)
        for piece in pieces:
            assert piece.old_values is not None
            ends = piece.lengths.cumsum(0)[piece.lengths > 0] - 1
            scores = piece.advantages.new_zeros(len(piece.lengths))
            scores[piece.lengths > 0] = piece.advantages[ends]
            rewards = last_token_rewards(scores, piece.lengths)
            if piece.costs is not None:
                rewards = rewards - piece.costs
            piece.advantages = token_advantages(
                rewards, piece.old_values, piece.lengths, algorithm.discount, algorithm.gae_lambda
            )
            piece.returns = piece.advantages + piece.old_values
            gained, returns = piece.advantages.double(), piece.returns.double()
            parts = (gained, gained.square(), returns, returns.square())
            sums += torch.stack([gained.new_tensor(len(gained)), *(part.sum() for part in parts)])
        count, gain, gain_squares, earned, earned_squares = self.processes.all_reduce(sums).tolist()
        if count < 2:
            return None
        mean = gain / count
        residual_variance = max(gain_squares / count - mean**2, 0.0)
        return_variance = earned_squares / count - (earned / count) ** 2
        if algorithm.whiten_advantages:
            std = (residual_variance * count / (count - 1)) ** 0.5
            for piece in pieces:
                piece.advantages = (piece.advantages - mean) / (std + EPSILON)
        return 1.0 - residual_variance / return_variance if return_variance > EPSILON**2 else None

    def losses(self, piece: MicroBatch, values: Tensor) -> Tensor:
        """Half the squared errors (T,) of the current values (T,). Raises LearnerFailure without a prior `compute_advantages`."""
        if piece.old_values is None or piece.returns is None:
            raise LearnerFailure(
                "a value loss needs the values at the start of the update",
                remedy="call compute_advantages() first",
            )
        clip = self.algorithm.value_clip or None
        return value_loss(values, piece.old_values, piece.returns, clip) / 2

    def step(self, *, apply: bool, scale: float) -> None:
        """Apply the head's gradients, or discard them if the policy's were not applied. `scale` is the loss scale."""
        self.optimiser.scale = scale
        if apply:
            self.optimiser.step()
        else:
            self.head.zero_grad()

    def state_dict(self) -> dict[str, Tensor]:
        """The state that a checkpoint stores."""
        head = {f"{HEAD}{name}": tensor.detach().clone() for name, tensor in self.head.state_dict().items()}
        return head | {f"{MOMENTS}{name}": item for name, item in self.optimiser.state_dict().items()}

    def load_state_dict(self, tensors: Mapping[str, Tensor]) -> None:
        """Restore `state_dict`. Raises RuntimeError, KeyError or ValueError if it does not belong to this head."""
        parts: dict[str, dict[str, Tensor]] = {HEAD: {}, MOMENTS: {}}
        for key, tensor in tensors.items():
            prefix = HEAD if key.startswith(HEAD) else MOMENTS
            parts[prefix][key.removeprefix(prefix)] = tensor
        self.head.load_state_dict(parts[HEAD])
        self.optimiser.load_state_dict(parts[MOMENTS])


class RewardUnits:
    """The N compared units of a batch (answers, or episodes of a role), and the unit of each answer."""

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
            apart = [((index, number), (index, 0), reward) for number, reward in enumerate(group.rewards)]
            together = [((-1, unit), (-1, owner), reward) for unit, owner, reward in group.compared]
            for number, (unit_key, group_key, reward) in enumerate(together or apart):
                if unit_key not in unit_numbers:
                    unit_numbers[unit_key] = len(rewards)
                    rewards.append(reward)
                    owners.append(group_numbers.setdefault(group_key, len(group_numbers)))
                    advantages.append(group.advantages[number])
                    tokens.append(0)
                    if len(group_numbers) > len(self.roles):
                        self.roles.append(group.role)
                unit = self.unit_of[id(group), number] = unit_numbers[unit_key]
                tokens[unit] += group.answers[number].trained_tokens
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


def _apply_token_returns(
    pieces: Sequence[MicroBatch],
    units: RewardUnits,
    informative: NDArray[np.bool_],
    algorithm: TokenReturns,
    processes: Processes,
    device: torch.device,
) -> None:
    """REINFORCE++: returns of tokens, normalised over the tokens of the whole batch; 0 in groups that are not `informative`."""
    settings = normalisation(algorithm)
    within = replace(
        settings,
        mean_level="group" if settings.mean_level == "group" else "none",
        std_level="group" if settings.std_level == "group" else "none",
    )
    scores = torch.from_numpy(normalised_advantages(units.rewards, units.groups, within)).to(device)
    unit_mask = torch.from_numpy(informative[units.groups]).to(device)
    masks = []
    for piece in pieces:
        rewards = last_token_rewards(scores[units.of_answers(piece)].float(), piece.lengths)
        rewards = rewards if piece.costs is None else rewards - piece.costs
        masks.append(unit_mask[units.of_tokens(piece)])
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
