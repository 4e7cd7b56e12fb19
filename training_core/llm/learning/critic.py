"""PPO's critic: a linear head on the policy's last hidden states that predicts the remaining reward of a response.

The trunk is the policy's, so the value loss also trains it. The head is fp32, has its own AdamW and is initialised to
zero, so that the first values are 0 and the first advantages are the rewards. T response tokens, U positions that
predict them, H hidden size.
"""

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from training_core.algorithms.config import ActorCritic
from training_core.algorithms.gae import last_token_rewards, token_advantages
from training_core.algorithms.losses import value_loss
from training_core.errors import LearnerFailure
from training_core.llm.learning.learner_config import Optimisation
from training_core.llm.learning.micro_batches import MicroBatch
from training_core.llm.learning.optimisation import Optimiser
from training_core.llm.learning.processes import SINGLE_PROCESS, Processes

HEAD, MOMENTS = "head.", "moments."
"""Prefixes of the names of a checkpoint's tensors."""
EPSILON = 1e-6


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

    def compute_advantages(self, piece: MicroBatch, values: Tensor, costs: Tensor | None) -> None:
        """Compute a micro-batch's token advantages, with its answers' current advantages as their rewards.

        `values` (T,) are the critic's current ones; `costs` (T,) are subtracted from the tokens' rewards.
        """
        ends = piece.lengths.cumsum(0)[piece.lengths > 0] - 1
        scores = piece.advantages.new_zeros(len(piece.lengths))
        scores[piece.lengths > 0] = piece.advantages[ends]
        rewards = last_token_rewards(scores, piece.lengths)
        if costs is not None:
            rewards = rewards - costs
        algorithm = self.algorithm
        piece.advantages = token_advantages(
            rewards, values, piece.lengths, algorithm.discount, algorithm.gae_lambda
        )
        piece.old_values, piece.returns = values, piece.advantages + values

    def normalise_advantages(self, pieces: Sequence[MicroBatch], device: torch.device) -> float | None:
        """Normalise the advantages of all of an update's tokens, if configured; return the share of the returns'
        variance that the values explain (None if returns do not vary).
        """
        sums = torch.zeros(5, dtype=torch.float64, device=device)
        for piece in pieces:
            if piece.returns is not None:
                gained, returns = piece.advantages.double(), piece.returns.double()
                parts = (gained, gained.square(), returns, returns.square())
                sums += torch.stack([gained.new_tensor(len(gained)), *(part.sum() for part in parts)])
        count, gained, gained_squares, earned, earned_squares = self.processes.all_reduce(sums).tolist()
        if count < 2:
            return None
        mean = gained / count
        residual_variance = max(gained_squares / count - mean**2, 0.0)
        return_variance = earned_squares / count - (earned / count) ** 2
        if self.algorithm.whiten_advantages:
            std = (residual_variance * count / (count - 1)) ** 0.5
            for piece in pieces:
                piece.advantages = (piece.advantages - mean) / (std + EPSILON)
        return 1.0 - residual_variance / return_variance if return_variance > EPSILON**2 else None

    def losses(self, piece: MicroBatch, values: Tensor) -> Tensor:
        """Half the squared errors (T,) of the current values (T,). Raises LearnerFailure without a prior `compute_advantages`."""
        if piece.old_values is None or piece.returns is None:
            raise LearnerFailure(
                "a value loss needs the values at the start of the update; call compute_advantages() first"
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
