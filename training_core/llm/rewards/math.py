"""Mathematical answers: finding them in a text, and telling whether two of them are equal.

Nothing here runs what it reads. Plain numbers (whole, decimal, fractions, LaTeX fractions) are compared exactly; what
needs algebra is left to the library math-verify, which may think for ever about hostile input: `equal_by_algebra` belongs
into a process that can be ended (training_core/llm/rewards/pool.py).
"""

import re
from fractions import Fraction
from typing import Any

from training_core.llm.answers import after_thought
from training_core.llm.rewards.costs import too_costly
from training_core.llm.rewards.units import without_unit

MOST_DIGITS = 60
"""Longer numbers are no numbers: nobody asked for them, and reading them takes time."""
_MOST_BOXES = 16
"""Looked at from the end: a text of nothing but opened boxes must not cost more than its length."""
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
"""White space that parts no two numbers: 12 345 is one, 5 6 are two."""
_NUMBERS = re.compile(r"\s*\d[\d.]*(?:\s+[-\d.]+)+\s*")
"""Several numbers, which algebra would read as one."""
_UPRIGHT = re.compile(r"\\(?:mathrm|rm|text)\{\s*([a-zA-Z])\s*\}")
"""An upright letter, as in \\mathrm{e}^2: math-verify takes it for a unit."""
_THOUSANDS = re.compile(r"(?<=\d)(?:,|\{,\})(?=\d{3}(?!\d))")


def final_answer(text: str, *, strict: bool = False) -> str | None:
    r"""The answer that a text ends on; None where there is none.

    The last complete \boxed{...}; else what follows the last ####; else what follows the last "answer is" or "answer:";
    else the last number. With `strict`, a box or #### only. What stands in the text's thought does not count.
    """
    text = after_thought(text)
    found = boxed(text) or _last(_LINE_END, text)
    if found is None and not strict:
        found = _last(_ANSWER_IS, text)
        if found is None or as_fraction(found) is None:
            numbers = _NUMBER.findall(text if found is None else found)
            found = numbers[-1] if numbers else found
    return found.strip() if found and found.strip() else None


def boxed(text: str) -> str | None:
    r"""Content of the last \boxed{...} (or \fbox) whose braces close; None where there is none."""
    for box in reversed(list(_BOX.finditer(text))[-_MOST_BOXES:]):
        depth = 1
        for place in range(box.end(), len(text)):
            depth += {"{": 1, "}": -1}.get(text[place], 0)
            if depth == 0:
                return text[box.end() : place]
    return None


def as_fraction(text: str) -> Fraction | None:
    r"""The number that a text is, exactly: 12, -1,234.50, 3/4, \frac{3}{4}, 1\frac{1}{2}, $7$, 0.5. None for anything else."""
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


def equal_numbers(given: str, wanted: str) -> bool | None:
    """Whether two answers are the same number; None where one of them is no plain number."""
    one, other = as_fraction(given), as_fraction(wanted)
    return None if one is None or other is None else one == other


def equal_by_algebra(given: str, wanted: str) -> bool:
    """Whether two answers are equal as math-verify sees it: sets, intervals, expressions, equations, units left out.

    May take as long as it likes: run it where it can be ended.
    """
    from math_verify import parse, verify  # type: ignore[import-untyped]  # sympy: a second to import

    plain = (_UPRIGHT.sub(r" \1", text) for text in (wanted, given))
    try:
        gold, answer = (parse(f"${text}$", parsing_timeout=None) for text in plain)
        return bool(verify(gold, answer, timeout_seconds=None))
    except (MemoryError, RecursionError, OverflowError):  # more than any answer to a question needs
        return False


def equal(given: str, wanted: str) -> bool:
    """Whether two answers are equal: as texts, as numbers, or by algebra.

    A unit may be left out of one of them; two different units are different answers. What is too costly for algebra is equal
    only to its own text.
    """
    (one, unit), (other, wanted_unit) = without_unit(given), without_unit(wanted)
    if _squeezed(given) == _squeezed(wanted) or _squeezed(one) == _squeezed(other) and unit == wanted_unit:
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
    """1 where the answer that a text ends on equals the label, else 0. The label may be a worked solution (GSM8K's ####)."""
    if label is None:
        raise ValueError("no label to compare with; give each line of the data a field `label` or `answer`")
    given, wanted = final_answer(completions, strict=strict), str(label)
    wanted = final_answer(wanted, strict=True) or wanted
    return float(given is not None and equal(given, wanted))


class MathJudge:
    """`math_reward`, with the library for algebra loaded when it is made."""

    def __init__(self, strict: bool = False) -> None:
        self._strict = strict
        equal_by_algebra("x + 1", "1 + x")

    def __call__(self, **request: Any) -> float:
        return math_reward(**request, strict=self._strict)


def _squeezed(text: str) -> str:
    """Without spaces and signs of mathematics mode."""
    return _SPACE.sub("", text.strip().replace("$", ""))


def _ratio(sign: str, above: str, below: str) -> Fraction | None:
    if Fraction(below) == 0:
        return None
    value = Fraction(above) / Fraction(below)
    return -value if sign else value


def _last(pattern: re.Pattern[str], text: str) -> str | None:
    found = pattern.findall(text)
    return found[-1] if found else None
