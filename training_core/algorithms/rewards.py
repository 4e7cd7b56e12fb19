"""Rewards before advantages are computed. No torch here, because the playing process uses it."""


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
