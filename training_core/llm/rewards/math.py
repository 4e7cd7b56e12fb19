"""Mathematical answers: finding them in a text, and deciding whether two of them are equal.

Nothing here executes its input. An answer is found in the text, written in one notation (notation.py), read as words, a
quantity, a list or an interval (reading.py), and compared part by part: words as words, numbers exactly, units by their
dimension. The library math-verify compares only expressions and equations; it may not terminate on hostile input: call
`equal_by_algebra` in a process that can be killed (training_core/llm/rewards/pool.py). A cheap check before algebra refuses
powers and factorials that are too large to write out: `9^{9^{9^9}}` keeps a computer algebra system busy until it is killed;
no real answer looks like this.
"""

import re
from fractions import Fraction
from math import comb
from string import ascii_uppercase
from typing import Any

from training_core.llm.answers import after_thought
from training_core.llm.rewards.notation import normal, number
from training_core.llm.rewards.reading import Answer, clock, is_text, ratio, read, stands_for_itself

MAX_CHARACTERS = 2000
_MAX_DIGITS = 6
"""Maximum digits of an exponent."""
_MAX_VALUE = 10**_MAX_DIGITS
_MAX_WRITTEN_DIGITS = 50_000
"""Maximum digits of a power of plain numbers."""
_MAX_TERMS = 10_000
"""Maximum terms of a bracketed sum after expansion."""
_MAX_INDEX = 1000
"""Maximum index of a root."""
_MAX_ARGUMENT = 10_000
"""Maximum argument of a factorial."""
_MAX_LEVELS = 3
"""Maximum nesting of exponents in an expression that is not a plain number."""
_MAX_DEPTH = 60
"""Maximum nesting of braces and brackets, because parsers recurse."""
_DIGITS = re.compile(r"\d+")
_NUMBER_IN_BRACES = re.compile(r"[({\[]\s*(\d+)\s*[)}\]]")
_POWER = re.compile(r"(\d+)\s*\^\s*[-+]?\s*(\d+)(?!\d*\s*[\^!])")
_FACTORIAL = re.compile(r"(\d+)\s*!")
_EXPONENT = re.compile(r"\^\s*\{?\s*[-+]?\s*(\d+)")
_BOUND = re.compile(r"\\(?:sum|prod)\b[^^]{0,80}\^\s*\{?\s*(\d+)")
_BINOMIAL = re.compile(r"binom\s*\{?\s*(\d+)")
_EXPANDED = re.compile(r"[)\]}]\s*\^\s*\{?\s*(\d+)")
"""A power of an expression in brackets, which algebra may expand."""
_SUM = re.compile(r"[(\[{]([^(){}\[\]]*)[)\]}]\s*\^\s*\{?\s*(\d+)")
_ROOT = re.compile(r"\\sqrt\s*\[\s*(\d+)")
_SCIENTIFIC = re.compile(r"\d[eE][+-]?(\d+)")


def too_costly(text: str) -> bool:
    """Whether algebra on a text might not terminate in reasonable time. Runs in time linear in the text's length."""
    longest = max((len(digits) for digits in _DIGITS.findall(text)), default=0)
    if len(text) > MAX_CHARACTERS or longest > MAX_CHARACTERS // 2:
        return True
    plain = text.replace("**", "^").replace("\\left", "").replace("\\right", "").replace("\\cdot", "*")
    return _deep(plain) or _written_out(plain)


def _deep(text: str) -> bool:
    """Whether brackets or exponents are nested too deeply."""
    levels = [0]  # exponent depth around each open bracket
    pending = token = 0  # exponent depth of the next token, and of the last one
    for letter in text:
        if letter == "^":
            pending = max(token, levels[-1]) + 1
        elif letter in "({[":
            levels.append(pending or levels[-1])
            pending = token = 0
        elif letter in ")}]":
            levels = levels[:-1] or [0]
            pending, token = 0, levels[-1]
        elif letter.isalnum():
            pending, token = 0, pending or token
        elif letter not in " \\":
            pending, token = pending if letter in "+-" else 0, levels[-1]
        if pending > _MAX_LEVELS or len(levels) > _MAX_DEPTH:
            return True
    return False


def _large_parts(text: str) -> bool:
    """Whether an exponent, or a bound of a sum or product, is a large number."""
    limits = (
        (_MAX_VALUE, _EXPONENT), (_MAX_VALUE, _SCIENTIFIC), (_MAX_ARGUMENT, _BOUND), (_MAX_ARGUMENT, _BINOMIAL),
        (_MAX_ARGUMENT, _EXPANDED), (_MAX_INDEX, _ROOT),
    )  # fmt: skip
    if any(int(digits) >= most for most, pattern in limits for digits in pattern.findall(text)):
        return True
    return any(_terms(inner, int(power)) > _MAX_TERMS for inner, power in _SUM.findall(text))


def _terms(inner: str, power: int) -> int:
    """Number of terms of a power of a sum after expansion."""
    more = min(sum(letter in "+-" for letter in inner.strip()[1:]), 9)
    return comb(power + more, more)


def _written_out(text: str) -> bool:
    """Whether an expression has large parts once powers and factorials of plain numbers are evaluated, innermost first."""
    for _ in range(20):
        if _large_parts(text):
            return True
        text = _NUMBER_IN_BRACES.sub(r" \1 ", text)
        if any(int(digits) > _MAX_ARGUMENT for digits in _FACTORIAL.findall(text)):
            return True
        if any(len(base) * int(power) > _MAX_WRITTEN_DIGITS for base, power in _POWER.findall(text)):
            return True
        simpler = _FACTORIAL.sub(_factorial, _POWER.sub(_power, text))
        if simpler == text:
            return False
        text = simpler
    return True


def _power(match: re.Match[str]) -> str:
    base, power = int(match[1]), int(match[2])
    return str(min(base**power, _MAX_VALUE)) if len(str(base)) * power < 100 else str(_MAX_VALUE)


def _factorial(match: re.Match[str]) -> str:
    number, value = int(match[1]), 1
    for factor in range(2, min(number, 20) + 1):
        value *= factor
    return str(min(value, _MAX_VALUE))


_MOST_BOXES = 16
"""Maximum boxes checked, from the end: the cost of a text of opened boxes must stay linear in its length."""
_MOST_PARTS = 64
"""Maximum elements of a list that is compared without regard to order."""
_LONGEST_NUMBER = 200
_BOX = re.compile(r"\\f?box(?:ed)?\s*\{")
_BRACE = re.compile(r"\\.|[{}]", re.DOTALL)
_JOINED = re.compile(r"(?:[\s$.,;:()\[\]]|\\[()\[\],;]|\\q?quad|\\text\{\s*(?:and|or)\s*\}|and|or)*")
"""What stands between two boxes that are one answer."""
_LINE_END = re.compile(r"####\s*([^\n]+)")
_ANSWER_IS = re.compile(r"(?i:answer\s*(?:is|:|=))[\s:*]*(?=([^\n]+))")
_FORMULA = re.compile(r"(?:approximately |about )?(?:\$\$?([^$]+)\$|\\\((.+?)\\\)|\\\[(.+?)\\\])")
_SUBJECT = re.compile(r"^the\b[^.]*?\bis\s+", re.IGNORECASE)
_SENTENCE_END = re.compile(r"[.!?](?:\s|$)")
_NUMBER = re.compile(r"(?<![\w.])-?\d[\d,]*(?:\.\d+)?(?:\s*/\s*-?\d+)?|(?<![\w.])-?\.\d+|\d[\d,]*(?:\.\d+)?")
_DECIMAL, _DECIMAL_COMMA = re.compile(r"-?\d+\.\d+"), re.compile(r"-?(?:\d+,\d{1,2}|0,\d+|\d{4,},\d+)")
_RELATION = re.compile(r"[<>=]|\\(?:le|ge|ne)(?![a-z])")
_IMAGINARY = re.compile(r"(?<![a-zA-Z\\_])i(?![a-zA-Z_])")
_BOUND_INDEX = re.compile(r"\bi\s*=|_\{?i|\(i\)")
_CONJUNCTION = re.compile(r"\b(?:and|or)\b|\\l(?:and|or)\b")
_COMMAND, _SYMBOL = re.compile(r"\\[a-zA-Z]+"), re.compile(r"\\[a-zA-Z]+|[A-Z]")
_VARIABLES = "qwzuvhkmnpst"
_DECIMALS = re.compile(r"(?<![\d.])(\d*)\.(\d+)")


def final_answer(text: str, *, strict: bool = False) -> str | None:
    r"""The final answer of a text; None if there is none.

    The last \boxed{...}, None if it is not complete; without boxes the text after the last ####; otherwise the formula or
    the sentence after the last "answer is" or "answer:"; otherwise the last number. With `strict`, only a box or ####.
    The reasoning part of the text is ignored.
    """
    text = after_thought(text)
    if _BOX.search(text):
        answer = boxed(text)
    elif (answer := _last(_LINE_END, text)) is None and not strict:
        stated = _last(_ANSWER_IS, text)
        answer = _last(_NUMBER, text) if stated is None else _statement(stated)
    return answer.strip() if answer and answer.strip() else None


def boxed(text: str) -> str | None:
    r"""Content of the last \boxed{...} (or \fbox), with that of the boxes directly before it; None if the last one is
    not complete.
    """
    starts = list(_BOX.finditer(text))[-_MOST_BOXES:]
    contents: list[str] = []
    following = len(text)
    for box in reversed(starts):
        end = _end_of_group(text, box.end())
        if end is None or end > following or contents and not _JOINED.fullmatch(text[end + 1 : following]):
            break
        contents.insert(0, text[box.end() : end])
        following = box.start()
    return ", ".join(contents) if contents else None


def as_fraction(text: str) -> Fraction | None:
    r"""The exact number in a text: 12, -1,234.50, 3/4, \frac{3}{4}, 1\frac{1}{2}, $7$, 1e3, 5 cm. None for anything else."""
    if len(text) > _LONGEST_NUMBER:
        return None
    answer = read(normal(text))
    return None if answer.unit and answer.unit.as_number else answer.number


def equal_by_algebra(answer_text: str, label_text: str) -> bool:
    """Whether two expressions or two equations are equal according to math-verify.

    Run time is unbounded: call it in a process that can be killed.
    """
    from latex2sympy2_extended import NormalizationConfig  # type: ignore[import-untyped]  # sympy: a second to import
    from math_verify import LatexExtractionConfig, parse, verify  # type: ignore[import-untyped]

    notation = NormalizationConfig(basic_latex=True, malformed_operators=True, nits=True)
    ways = [LatexExtractionConfig(normalization_config=notation)]
    try:
        gold, answer = (
            parse(f"${_exact(text)}$", ways, parsing_timeout=None)
            for text in _capitals_renamed(label_text, answer_text)
        )
        return bool(verify(gold, answer, timeout_seconds=None)) and not _apart(gold[0], answer[0])
    except (MemoryError, RecursionError, OverflowError):  # more than any real answer needs
        return False


def equal(answer_text: str, label_text: str) -> bool:
    """Whether two answers are equal. Only one of them may have a unit or a name (`x = 5`); both, they must agree.

    An answer too costly for algebra equals only the same text.
    """
    if max(len(answer_text), len(label_text)) > MAX_CHARACTERS:
        return answer_text.strip("$ \n") == label_text.strip("$ \n")
    one, other = normal(answer_text), normal(label_text)
    if one == other:
        return True
    if too_costly(one) or too_costly(other):
        return False
    if (
        _DECIMAL.fullmatch(one)
        and _DECIMAL_COMMA.fullmatch(other)
        or _DECIMAL.fullmatch(other)
        and _DECIMAL_COMMA.fullmatch(one)
    ):
        one, other = one.replace(",", "."), other.replace(",", ".")
    return _same(read(one), read(other))


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


def _same(one: Answer, other: Answer) -> bool:
    if one.name and other.name and one.name != other.name:
        return False
    if one.parts and other.parts:
        return _same_parts(one, other)
    if _RELATION.search(one.source) and _RELATION.search(other.source) and not (one.name and other.name):
        return _equal_expressions(one.source, other.source)
    if one.parts or other.parts:
        return False
    if one.unit and other.unit:
        if one.unit.dimensions != other.unit.dimensions:
            return False
        if one.unit.factor != other.unit.factor:
            return _same_value(_times(one.value, one.unit.factor), _times(other.value, other.unit.factor))
        return _same_value(one.value, other.value)
    if _same_value(one.value, other.value):
        return True
    return _scaled(one, other.value) or _scaled(other, one.value)


def _scaled(answer: Answer, value: str) -> bool:
    """Whether a percentage or an angle in degrees equals a number without unit."""
    scale = answer.unit.as_number if answer.unit else ""
    exact, plain = number(answer.value), number(value)
    if scale and exact is not None and plain is not None:  # degrees are irrational
        return scale == r"\frac{1}{100}" and exact / 100 == plain
    return bool(scale) and _same_value(rf"({answer.value}) \cdot {scale}", value)


def _same_parts(one: Answer, other: Answer) -> bool:
    if one.brackets != other.brackets or len(one.parts) != len(other.parts):
        return False
    named = [len({part.name for part in side.parts} - {""}) for side in (one, other)]
    if one.brackets or sorted(named) > [0, 1] and 0 in named:
        return all(map(_same, one.parts, other.parts))
    left = list(other.parts)
    if len(left) > _MOST_PARTS:
        return False
    for part in one.parts:
        match = next((index for index, candidate in enumerate(left) if _same(part, candidate)), None)
        if match is None:
            return False
        del left[match]
    return True


def _same_value(one: str, other: str) -> bool:
    if _squeezed(one) == _squeezed(other):
        return True
    numbers = number(one), number(other)
    if None not in numbers:
        return numbers[0] == numbers[1]
    if stands_for_itself(one) or stands_for_itself(other):
        return False
    if ":" in one or ":" in other:
        return _same_ratio(one, other)
    if is_text(one) and is_text(other):
        return _letters(one) == _letters(other)
    if any(is_text(value) and len(_letters(value)) > 2 for value in (one, other)):
        return _letters(one) == _letters(other)
    if bool(_RELATION.search(one)) != bool(_RELATION.search(other)):
        return False
    return _equal_expressions(one, other)


def _equal_expressions(one: str, other: str) -> bool:
    """Algebra, which does not see words between expressions."""
    return not (_CONJUNCTION.search(one) or _CONJUNCTION.search(other)) and equal_by_algebra(one, other)


def _same_ratio(one: str, other: str) -> bool:
    """Whether ratios or times are equal. A fraction can be a ratio, a decimal cannot."""
    times = clock(one), clock(other)
    if times[0] and times[1]:
        return times[0][1:] == times[1][1:] and bool(times[0][0] & times[1][0])
    terms = [ratio(value) or re.split(r"(?<=\d)/(?=\d)", _as_ratio(value)) for value in (one, other)]
    if any(len(side) < 2 for side in terms) or len(terms[0]) != len(terms[1]):
        return False
    first, second = ([Fraction(term) for term in side] for side in terms)
    return all(a * second[0] == b * first[0] for a, b in zip(first, second, strict=True))


def _as_ratio(value: str) -> str:
    exact = number(value)
    return str(exact) if exact is not None and exact > 0 and "." not in value else ""


def _apart(gold: Any, answer: Any) -> bool:
    """Whether two constants differ in their first 50 digits: math-verify compares fewer, and takes tiny ones for 0."""
    if getattr(gold, "is_Relational", False) and getattr(answer, "is_Relational", False):
        return bool(gold.free_symbols != answer.free_symbols)  # equations without solution are not all equal
    try:
        difference, size = (gold - answer).evalf(60), gold.evalf(60)
        return bool(
            difference.is_finite is None and difference.is_number or abs(difference) > abs(size) * 10**-50
        )
    except (AttributeError, TypeError, ValueError):  # not constants
        return False


def _exact(text: str) -> str:
    """An expression with fractions for decimals, which algebra rounds, and with the root of -1 for i."""
    if not _BOUND_INDEX.search(text):
        text = _IMAGINARY.sub(r" \\sqrt{-1} ", text)
    text = text.replace(r"^\circ", r" \cdot \frac{\pi}{180}")
    return _DECIMALS.sub(lambda match: rf"\frac{{{int(match[1] + match[2])}}}{{{10 ** len(match[2])}}}", text)


def _capitals_renamed(*texts: str) -> list[str]:
    """The texts with an unused letter for each capital whose small letter is in them too: the parser takes both for one."""
    letters = set(_COMMAND.sub("", "".join(texts)))
    capitals = sorted(letter for letter in letters if letter in ascii_uppercase and letter.lower() in letters)
    unused = [letter for letter in _VARIABLES if letter not in letters and letter.upper() not in letters]
    names = dict(zip(capitals, unused, strict=False))
    return [_SYMBOL.sub(lambda match: names.get(match[0], match[0]), text) for text in texts]


def _times(value: str, factor: Fraction) -> str:
    exact = number(value)
    if exact is not None:
        return str(exact * factor)
    return rf"({value}) \cdot \frac{{{factor.numerator}}}{{{factor.denominator}}}"


def _squeezed(text: str) -> str:
    """The text without spaces, except those between digits."""
    return re.sub(r"(?<!\d)\s+|\s+(?!\d)", "", text)


def _letters(text: str) -> str:
    return re.sub(r"\\text|[^\w\\+-]|_", "", text).casefold()


def _statement(text: str) -> str:
    """The first formula of a sentence, otherwise the sentence."""
    if formula := _FORMULA.match(text):
        return next(group for group in formula.groups() if group)
    return _SUBJECT.sub("", _SENTENCE_END.split(text.replace("*", " ").strip() + " ")[0])


def _end_of_group(text: str, start: int) -> int | None:
    """The index of the brace that closes the group whose content begins at `start`."""
    depth = 1
    for brace in _BRACE.finditer(text, start):
        depth += {"{": 1, "}": -1}.get(brace[0], 0)
        if depth == 0:
            return brace.start()
    return None


def _last(pattern: re.Pattern[str], text: str) -> str | None:
    matches = pattern.findall(text)
    return matches[-1] if matches else None
