"""Mathematical answers: finding them in a text, and deciding whether two of them are equal.

Nothing here executes its input. Plain numbers (integers, decimals, fractions, LaTeX fractions) are compared exactly;
other answers are compared by the library math-verify, which may not terminate on hostile input: call
`equal_by_algebra` in a process that can be killed (training_core/llm/rewards/pool.py).
"""

import re
from fractions import Fraction
from typing import Any

from training_core.llm.answers import after_thought
from training_core.llm.rewards.expression_cost import too_costly
from training_core.llm.rewards.units import without_unit

MOST_DIGITS = 60
"""Longer digit strings do not count as numbers, because parsing them takes time."""
_MOST_BOXES = 16
"""Maximum boxes checked, from the end: the cost of a text of opened boxes must stay linear in its length."""
_BOX = re.compile(r"\\f?box(?:ed)?\s*\{")
_LINE_END = re.compile(r"####\s*([^\n]+)")
_ANSWER_IS = re.compile(r"(?i:answer\s*(?:is|:|=))\s*([^\n]+)")
_NUMBER = re.compile(r"-?\d[\d,]*(?:\.\d+)?(?:\s*/\s*-?\d+)?|-?\.\d+")
_PLAIN = r"[-+]?(?:\d+(?:\.\d*)?|\.\d+)"
_RATIO = re.compile(rf"({_PLAIN})(?:/({_PLAIN}))?")
_MIXED = re.compile(r"(-?)(\d+)\\frac\{(\d+)\}\{(\d+)\}")
_FRAC = re.compile(rf"(-?)\\frac(?:\{{({_PLAIN})\}}|(\d))(?:\{{({_PLAIN})\}}|(\d))")
_ORNAMENTS = re.compile(
    r"\\left|\\right|\\[,!;: ()\[\]]|^\s*\\(?:text|mathrm)\{[^{}]*\}|\\(?:text|mathrm)\{[^{}]*\}[\s.]*$|[$]"
)
_SPACE = re.compile(r"\s+(?=\d{3}(?!\d))|(?<!\d)\s+|\s+(?!\d)")
"""White space within one number: 12 345 is one number, 5 6 are two."""
_NUMBERS = re.compile(r"\s*\d[\d.]*(?:\s+[-\d.]+)+\s*")
"""Several numbers, which algebra would read as one."""
_UPRIGHT = re.compile(r"\\(?:mathrm|rm|text)\{\s*([a-zA-Z])\s*\}")
"""An upright letter, as in \\mathrm{e}^2: math-verify parses it as a unit."""
_THOUSANDS = re.compile(r"(?<=\d)(?:,|\{,\})(?=\d{3}(?!\d))")


def final_answer(text: str, *, strict: bool = False) -> str | None:
    r"""The final answer of a text; None if there is none.

    The last complete \boxed{...}; otherwise the text after the last ####; otherwise after the last "answer is" or
    "answer:"; otherwise the last number. With `strict`, only a box or ####. The reasoning part of the text is
    ignored.
    """
    text = after_thought(text)
    answer = boxed(text) or _last(_LINE_END, text)
    if answer is None and not strict:
        answer = _last(_ANSWER_IS, text)
        if answer is None or as_fraction(answer) is None:
            numbers = _NUMBER.findall(text if answer is None else answer)
            answer = numbers[-1] if numbers else answer
    return answer.strip() if answer and answer.strip() else None


def boxed(text: str) -> str | None:
    r"""Content of the last \boxed{...} (or \fbox) whose braces close; None if there is none."""
    for box in reversed(list(_BOX.finditer(text))[-_MOST_BOXES:]):
        depth = 1
        for index in range(box.end(), len(text)):
            depth += {"{": 1, "}": -1}.get(text[index], 0)
            if depth == 0:
                return text[box.end() : index]
    return None


def as_fraction(text: str) -> Fraction | None:
    r"""The exact number in a text: 12, -1,234.50, 3/4, \frac{3}{4}, 1\frac{1}{2}, $7$, 0.5. None for anything else."""
    bare = re.sub(r"\\[dt]frac", r"\\frac", text.strip().rstrip("."))
    bare = _THOUSANDS.sub("", _SPACE.sub("", _ORNAMENTS.sub("", bare)))
    if sum(letter.isdigit() for letter in bare) > MOST_DIGITS:
        return None
    if mixed := _MIXED.fullmatch(bare):
        sign, whole, above, below = mixed.groups()
        return _ratio(sign, str(int(whole) * int(below) + int(above)), below)
    if frac := _FRAC.fullmatch(bare):
        sign, above, digit, below, other = frac.groups()
        return _ratio(sign, above or digit, below or other)
    if plain := _RATIO.fullmatch(bare):
        return _ratio("", plain[1], plain[2] or "1")
    return None


def equal_numbers(answer_text: str, label_text: str) -> bool | None:
    """Whether two answers are the same number; None if one of them is not a plain number."""
    one, other = as_fraction(answer_text), as_fraction(label_text)
    return None if one is None or other is None else one == other


def equal_by_algebra(answer_text: str, label_text: str) -> bool:
    """Whether two answers are equal according to math-verify: sets, intervals, expressions, equations, ignoring
    units.

    Run time is unbounded: call it in a process that can be killed.
    """
    from math_verify import parse, verify  # type: ignore[import-untyped]  # sympy: a second to import

    plain = (_UPRIGHT.sub(r" \1", text) for text in (label_text, answer_text))
    try:
        gold, answer = (parse(f"${text}$", parsing_timeout=None) for text in plain)
        return bool(verify(gold, answer, timeout_seconds=None))
    except (MemoryError, RecursionError, OverflowError):  # more than any real answer needs
        return False


def equal(answer_text: str, label_text: str) -> bool:
    """Whether two answers are equal: as texts, as numbers, or by algebra.

    One of them may omit a unit; two different units are different answers. An expression too costly for algebra
    equals only the same text.
    """
    (one, unit), (other, wanted_unit) = without_unit(answer_text), without_unit(label_text)
    if (
        _squeezed(answer_text) == _squeezed(label_text)
        or _squeezed(one) == _squeezed(other)
        and unit == wanted_unit
    ):
        return True
    if unit and wanted_unit and unit != wanted_unit:
        return False
    same = equal_numbers(one, other)
    if _NUMBERS.fullmatch(one) or _NUMBERS.fullmatch(other):
        return bool(same)
    if same is None:
        same = not (too_costly(one) or too_costly(other)) and equal_by_algebra(one, other)
    return same


def math_reward(prompt: str, completions: str, label: Any = None, strict: bool = False, **data: Any) -> float:
    """1 if the final answer of a text equals the label, else 0. The label may be a worked solution (GSM8K's ####)."""
    if label is None:
        raise ValueError(
            "there is no label to compare with; give each line of the data a field `label` or `answer`"
        )
    answer_text, label_text = final_answer(completions, strict=strict), str(label)
    label_text = final_answer(label_text, strict=True) or label_text
    return float(answer_text is not None and equal(answer_text, label_text))


class MathReward:
    """`math_reward`, with the algebra library loaded on construction."""

    def __init__(self, strict: bool = False) -> None:
        self._strict = strict
        equal_by_algebra("x + 1", "1 + x")

    def __call__(self, **request: Any) -> float:
        return math_reward(**request, strict=self._strict)


def _squeezed(text: str) -> str:
    """The text without spaces and math-mode delimiters."""
    return _SPACE.sub("", text.strip().replace("$", ""))


def _ratio(sign: str, above: str, below: str) -> Fraction | None:
    if Fraction(below) == 0:
        return None
    value = Fraction(above) / Fraction(below)
    return -value if sign else value


def _last(pattern: re.Pattern[str], text: str) -> str | None:
    matches = pattern.findall(text)
    return matches[-1] if matches else None
