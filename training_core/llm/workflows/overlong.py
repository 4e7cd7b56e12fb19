"""Penalty for answers near their length limit (DAPO, arXiv 2503.14476, equation 13), in every workflow."""

from collections.abc import Sequence
from itertools import groupby

from training_core.algorithms.rewards import overlong_cost, soft_limit
from training_core.config.run import RunConfig
from training_core.types import Answer, Episode


def answer_cost(answer: Answer, role: str, config: RunConfig) -> float:
    """Penalty of an answer of this role: the sum over its sampled parts, each limited by the role's max_tokens."""
    algorithm, limit = config.algorithm, config.team.roles[role].sampling.max_tokens
    soft = soft_limit(limit, algorithm.overlong_tokens, algorithm.overlong_share)
    return sum(
        overlong_cost(length, limit, soft, algorithm.overlong_penalty) for length in sampled_lengths(answer)
    )


def sampled_lengths(answer: Answer) -> list[int]:
    """Lengths in tokens of each part that is trained on: one, or several with other text between them."""
    if answer.loss_mask is None:
        return [len(answer.token_ids)]
    return [len(list(span)) for learnt, span in groupby(answer.loss_mask) if learnt]


def apply_overlong_penalty(episodes: Sequence[Episode], config: RunConfig) -> None:
    """Subtract the penalty from the candidates of episodes whose program computed rewards without regard to length."""
    for episode in episodes:
        for turn in episode.turns:
            for candidate in turn.candidates:
                candidate.reward -= answer_cost(candidate.answer, turn.role, config)
