"""Soft adaptive policy optimisation (SAPO, arXiv 2511.20347) as a custom algorithm of language models. See docs/train/custom.md."""

import torch
from torch import Tensor

from training_core.algorithms.config import CustomAlgorithm
from training_core.algorithms.hooks import AlgorithmHooks
from training_core.algorithms.losses import Bounds, Tokens


class SoftClip(AlgorithmHooks):
    """-4 / tau sigmoid(tau (r - 1)) A instead of the clip, with tau for each sign of A from algorithm.args."""

    algorithm: CustomAlgorithm

    def policy_loss(self, tokens: Tokens, bounds: Bounds) -> tuple[Tensor, Tensor]:
        positive = float(self.algorithm.args.get("tau_positive", 1.0))
        negative = float(self.algorithm.args.get("tau_negative", 1.05))
        ratios = (tokens.logprobs - tokens.old_logprobs).exp()
        tau = torch.where(tokens.advantages > 0, positive, negative)
        gate = 4.0 / tau * torch.sigmoid(tau * (ratios - 1.0))
        return -gate * tokens.advantages, torch.zeros_like(ratios, dtype=torch.bool)
