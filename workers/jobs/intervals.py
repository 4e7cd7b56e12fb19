"""Confidence intervals of proportions."""

import math

Z = 1.959964
"""Quantile of a two-sided 95 % interval."""


def wilson(successes: int, trials: int) -> tuple[float, float]:
    """The 95 % interval of a proportion; 0 to 1 without trials.

    Wilson's score interval (1927): unlike mean plus or minus a deviation it stays within 0 and 1 and is accurate near both ends.
    """
    if trials == 0:
        return 0.0, 1.0
    share, z = successes / trials, Z**2 / trials
    middle = (share + z / 2) / (1 + z)
    half = math.sqrt(share * (1 - share) * z + z**2 / 4) / (1 + z)
    return max(0.0, middle - half), min(1.0, middle + half)
