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
