"""Penalty for answers near their length limit (DAPO, arXiv 2503.14476, equation 13), in every workflow."""

from collections.abc import Sequence
from itertools import groupby

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


def overlong_cost(length: int, limit: int, soft: int, penalty: float) -> float:
    """Reward subtracted from a response of `length` tokens with the maximum length `limit`.

    DAPO's soft overlong punishment (arXiv 2503.14476, equation 13): nothing up to limit - soft, then linear, and the
    full penalty at the limit. soft = 0: no penalty.
    """
    if soft <= 0:
        return 0.0
    start = limit - soft
    return penalty * min(max(length - start, 0) / soft, 1.0)


def soft_limit(limit: int, tokens: int, share: float) -> int:
    """Number of last tokens before `limit` with a penalty: `tokens`, or if that is 0 this share of the limit,
    rounded.

    DAPO's value (section 3.4) is a fifth: 4096 of 20480 tokens.
    """
    return tokens or round(share * limit)
