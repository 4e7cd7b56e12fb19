"""Potential-based shaping: rewards for progress that do not change the optimal policy."""


def shaped(before: float, after: float, weight: float, discount: float) -> float:
    """weight * (discount * potential after - potential before) (Ng, Harada and Russell 1999).

    Potentials are minus the remaining share of the task: -1 at the start, 0 when solved.
    """
    return weight * (discount * after - before)
