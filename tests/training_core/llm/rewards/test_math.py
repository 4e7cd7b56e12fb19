"""Answers in texts, and which of them are equal."""

from fractions import Fraction

import pytest

from training_core.llm.rewards.math import as_fraction, boxed, equal_by_algebra, equal_numbers, final_answer


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        (r"so \boxed{\frac{1}{2}}.", r"\frac{1}{2}"),
        (r"first \boxed{3}, no: \boxed{ 4 }", "4"),
        (r"\boxed{\text{all } x \in \{1, 2\}}", r"\text{all } x \in \{1, 2\}"),
        (r"\boxed {7}", "7"),
        (r"\fbox{7}", "7"),
        (r"right is \boxed{5}, then cut off \boxed{6", "5"),
        ("3 + 4 = 7\n#### 7", "7"),
        ("#### 1,234 ", "1,234"),
        ("#### 5\nlater #### 6", "6"),
        (r"#### 5 but \boxed{6}", "6"),
        ("The answer is 3/4.", "3/4."),
        ("The answer is: $x = 12$", "12"),
        ("we have 12 apples and 15 pears", "15"),
        ("it fell to -3.5 degrees", "-3.5"),
        ("I do not know", None),
        (r"\boxed{ }", None),
        ("", None),
    ],
)
def test_the_answer_that_a_text_ends_on(text: str, answer: str | None) -> None:
    assert final_answer(text) == answer


@pytest.mark.parametrize(
    ("text", "answer"), [("the answer is 5", None), ("5", None), ("#### 5", "5"), (r"\boxed{5}", "5")]
)
def test_strict_answers_stand_in_a_box_or_behind_hashes(text: str, answer: str | None) -> None:
    assert final_answer(text, strict=True) == answer


def test_boxes_that_never_close_cost_no_more_than_their_text() -> None:
    assert boxed(r"\boxed{1}" + r"\boxed{" * 20_000) is None


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("12", Fraction(12)), ("-3", Fraction(-3)), ("+3", Fraction(3)), ("007", Fraction(7)),
        ("1,234,567.50", Fraction(2469135, 2)), ("1{,}000", Fraction(1000)), (".5", Fraction(1, 2)), ("5.", Fraction(5)),
        ("3/4", Fraction(3, 4)), ("-3 / 4", Fraction(-3, 4)), ("0.1/0.2", Fraction(1, 2)), ("6/3", Fraction(2)),
        (r"\frac{3}{4}", Fraction(3, 4)), (r"-\dfrac{1}{3}", Fraction(-1, 3)), (r"\frac34", Fraction(3, 4)),
        (r"\frac{-1}{2}", Fraction(-1, 2)), (r"1\frac{1}{2}", Fraction(3, 2)), (r"-2\frac{1}{4}", Fraction(-9, 4)),
        ("$7$", Fraction(7)), (r"\(8\)", Fraction(8)), (r"9\text{ apples}", Fraction(9)), (" 4 . ", Fraction(4)),
    ],
)  # fmt: skip
def test_numbers_are_read_exactly(text: str, value: Fraction) -> None:
    assert as_fraction(text) == value


@pytest.mark.parametrize(
    "text",
    [
        "",
        "x",
        "1/0",
        r"\frac{1}{0}",
        "1,23",
        "--3",
        "1e9",
        "2^3",
        "1 2 3/",
        "nan",
        "inf",
        "9" * 61,
        "3//4",
        "٣.٣.٣",
    ],
)
def test_what_is_no_number(text: str) -> None:
    assert as_fraction(text) is None


def test_equal_numbers_look_different_and_others_are_not_judged() -> None:
    assert equal_numbers("0.5", r"\frac{2}{4}") is True
    assert equal_numbers("0.3333", "1/3") is False
    assert equal_numbers(r"\sqrt{4}", "2") is None


@pytest.mark.parametrize(
    ("given", "wanted", "equal"),
    [
        (r"\sqrt{4}", "2", True), ("x^2+2x+1", "(x+1)^2", True), (r"\{2, 1\}", r"\{1, 2\}", True),
        ("[1,2)", "[1,2]", False), (r"\frac{\pi}{2}", r"0.5\pi", True), (r"2\pi", r"3\pi", False), ("(1,2)", "(2,1)", False),
    ],
)  # fmt: skip
@pytest.mark.filterwarnings("ignore")
def test_algebra_is_left_to_math_verify(given: str, wanted: str, equal: bool) -> None:
    assert equal_by_algebra(given, wanted) is equal
