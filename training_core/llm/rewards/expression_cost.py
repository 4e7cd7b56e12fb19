"""A cheap check of an expression before algebra: it refuses powers and factorials that are too large to write out.

`9^{9^{9^9}}` keeps a computer algebra system busy until it is killed; no real answer looks like this.
"""

import re
from math import comb

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
