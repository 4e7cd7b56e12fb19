"""Expressions of metrics: values against Python's own arithmetic, and what is said of invalid ones."""

import math

import numpy as np
import pytest

from training_core.errors import ConfigError
from webapp.metrics.expressions import LONGEST, expression_read

COLUMNS = {
    "eval/success": np.array([0.5, 1.0, 2.0]),
    "a": np.array([4.0, 9.0, 0.0]),
    "x-y/z:1": np.array([1.0, 2.0, 3.0]),
}


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("eval/success - a", [-3.5, -8.0, 2.0]),
        ("a / eval/success", [8.0, 9.0, 0.0]),
        ("2 * (a + 1) - -a ^ 2", [26.0, 101.0, 2.0]),
        ("1 - 2 - 3 + a", [0.0, 5.0, -4.0]),
        ('sqrt(a) + abs("x-y/z:1" - 2)', [3.0, 3.0, 1.0]),
        ("x-y/z:1 * .5e1", [5.0, 10.0, 15.0]),
        ("log(exp(a))", [4.0, 9.0, 0.0]),
        ("1 / a", [0.25, 1 / 9, math.inf]),
    ],
)
def test_values_by_hand(text: str, wanted: list[float]) -> None:
    expression = expression_read(text)
    with np.errstate(all="ignore"):
        assert expression.value(COLUMNS).tolist() == pytest.approx(wanted)
    assert set(expression.keys) <= set(COLUMNS) and not expression.single


def test_a_text_without_spaces_is_a_metric() -> None:
    for name in ("eval/success", "loss+x", "1/2", "größe"):
        assert expression_read(name).single and expression_read(f" {name} ").keys == (name,)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("eval/success -", "is incomplete"),
        ("(a + b", "is incomplete"),
        ("a b", "'b' is not expected (column 3)"),
        ("a + = b", "'= b' is not expected (column 5)"),
        ("__import__(a)", "'(a)' is not expected"),
        ("1 + 2", "has no metric"),
        ("", "at most 200 characters"),
        ("a + " * LONGEST + "a", "at most 200 characters"),
    ],
)
def test_an_invalid_expression_is_reported_at_its_field(text: str, message: str) -> None:
    with pytest.raises(ConfigError) as raised:
        expression_read(text, "x")
    assert message in raised.value.fields["x"]


def test_the_deepest_expression_is_read() -> None:
    text = "(" * 95 + "a " + ")" * 95
    assert expression_read(text).keys == ("a",)
    assert expression_read("a" + " + a" * 45).value({"a": np.array([1.0])}).tolist() == [46.0]
    assert expression_read("abs(" * 38 + "a" + ")" * 38).value({"a": np.array([-1.0])}).tolist() == [1.0]
