"""Wilson's interval against figures that are published, against its equation, and against what it promises."""

import random

import pytest

from workers.jobs.context import Z, wilson


@pytest.mark.parametrize(
    ("successes", "trials", "low", "high"),
    [(81, 263, 0.2553, 0.3662), (15, 148, 0.0624, 0.1605), (0, 20, 0.0, 0.1611), (1, 29, 0.0061, 0.1718)],
)
def test_newcombes_table(successes: int, trials: int, low: float, high: float) -> None:
    """R. G. Newcombe, "Two-sided confidence intervals for the single proportion", 1998, table I, method 3."""
    assert wilson(successes, trials) == (pytest.approx(low, abs=5e-5), pytest.approx(high, abs=5e-5))


def test_the_bounds_are_roots_of_the_score_test() -> None:
    for bound in wilson(8, 10):
        assert abs(0.8 - bound) == pytest.approx(Z * (bound * (1 - bound) / 10) ** 0.5)


def test_the_interval_covers_the_true_share_95_percent_of_the_time() -> None:
    draw, held = random.Random(0), 0
    for _ in range(4000):
        low, high = wilson(sum(draw.random() < 0.9 for _ in range(64)), 64)
        held += low <= 0.9 <= high
    assert 0.93 < held / 4000 < 0.98


def test_no_trials_give_the_full_interval() -> None:
    assert wilson(0, 0) == (0.0, 1.0)
