"""Rewards before advantages are taken of them. No torch here: it is for the process that plays."""


def overlong_cost(length: int, limit: int, soft: int, penalty: float) -> float:
    """Reward lost by a response of `length` tokens where `limit` is the most it may have.

    DAPO's soft overlong punishment (arXiv 2503.14476, equation 13): nothing up to limit - soft, then linear, and the
    whole penalty at the limit. soft = 0: nothing.
    """
    if soft <= 0:
        return 0.0
    start = limit - soft
    return penalty * min(max(length - start, 0) / soft, 1.0)


def soft_limit(limit: int, tokens: int, share: float) -> int:
    """How many of the last tokens before `limit` cost reward: `tokens`, or where that is 0 this share of the limit, rounded.

    DAPO's own (section 3.4) is a fifth: 4096 of 20480 tokens.
    """
    return tokens or round(share * limit)
