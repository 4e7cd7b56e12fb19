"""Potential-based shaping: rewards for progress that leave the best play what it was."""


def shaped(before: float, after: float, weight: float, discount: float) -> float:
    """weight * (discount * potential after - potential before) (Ng, Harada and Russell 1999).

    Potentials are minus what is left to do, as a share of the whole: -1 in the beginning, 0 when solved.
    """
    return weight * (discount * after - before)
