"""The arithmetic of the ablation's table, by hand."""

import pytest

from tests.benchmarks.ablation import Curve, interval


def test_success_between_evaluations_lies_on_a_straight_line() -> None:
    curve = Curve()
    curve.success["greedy"] = {0: 0.2, 10: 0.6, 20: 0.8}
    curve.answers = {0: 0, 10: 1000, 20: 1500}
    assert curve.at("greedy", 0) == 0.2
    assert curve.at("greedy", 500) == pytest.approx(0.4)
    assert curve.at("greedy", 1250) == pytest.approx(0.7)
    assert curve.at("greedy", curve.budget) == curve.at("greedy", 9999) == 0.8


def test_an_interval_is_students() -> None:
    """0.90, 0.95, 1.00: deviation 0.05, over the root of 3, times 4.303."""
    assert interval([0.90, 0.95, 1.00]) == "0.95 ± 0.12"
    assert interval([0.5]) == "0.50"
