r"""One notation for mathematical answers: LaTeX without ornaments, and the exact numbers in it.

`normal` maps equal notations to one text: `½`, `\dfrac12` and `\frac 1 2` become `\frac{1}{2}`. It does not compute.
"""

import re
import unicodedata
from fractions import Fraction

MOST_DIGITS = 60
"""Longer digit strings do not count as numbers, because parsing them takes time."""

_SYMBOLS = str.maketrans(
    {
        "−": "-", "–": "-", "—": "-", "×": r"\times ", "·": r"\cdot ", "⋅": r"\cdot ", "÷": "/", "±": r"\pm ", "∓": r"\mp ",
        "π": r"\pi ", "θ": r"\theta ", "∞": r"\infty ", "√": r"\sqrt ", "≤": r"\le ", "≥": r"\ge ", "≠": r"\ne ", "≈": r"\approx ",
        "∈": r"\in ", "∪": r"\cup ", "∩": r"\cap ", "∅": r"\emptyset ", "°": r"^\circ ", "ℝ": r"\mathbb{R}", "’": "'",
    }
)  # fmt: skip
_SUPERSCRIPTS = re.compile("[⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻ⁿ]+")
_SUBSCRIPTS = re.compile("[₀₁₂₃₄₅₆₇₈₉]+")
_VULGAR = re.compile("[¼½¾⅐-⅞]")
_POWERS = {"million": 6, "billion": 9, "trillion": "{12}"}
_DELIMITERS = re.compile(r"(?<!\\)\$")
_RULES = tuple(
    (re.compile(pattern), replacement)
    for pattern, replacement in (
        # Spacing, sizes, colours and delimiters.
        (r"\\!\s*|\\left(?![a-z])\s*\.?|\\right(?![a-z])\s*\.?|\\[bB]igg?[lrm]?(?![a-z])|\\(?:display|text)style(?![a-z])", ""),
        (r"\\(?:textcolor|color)\s*\{[^{}]*\}|(?<!\\)\\[()\[\]]", ""),
        (r"(?<!\\)\\[,;:> ]|~|\\q?quad(?![a-z])", " "),
        # Text, and upright letters that are constants.
        (r"\\mathrm\s*\{\s*([eid])\s*\}", r" \1 "),
        (r"\\(?:math(?:bf|it|sf)|boldsymbol)\s*\{([^{}]*)\}", r"\1"),
        (r"\\(?:text(?:bf|it|rm|sf|tt|normal|up)?|textnormal|mathrm|mbox|operatorname\*?)\s*\{", r"\\text{"),
        (r"\\text\{\s*,?\s*(and|or)\s*\}", r" \1 "),
        (r"^\s*(?:\\text\{)?(?:the )?(?:final )?answer(?: is)?\s*:?\s*\}?\s*(?=\S)|^\s*\\text\{[^{}]*(?::|\bis)\s*\}", ""),
        (r"^\s*\\text\{\s*(?:about|approximately)\s*\}|^\s*(?:=|\\approx(?![a-z]))\s*", ""),
        (r"[\s.,;]+$|(?<=[^\W\d_])[\s.,;]+\}$", lambda end: "}" if end[0].endswith("}") else ""),
        # One command for each meaning.
        (r"\\[dtc]frac(?![a-z])", r"\\frac"),
        (r"\\leq(?:slant)?(?![a-z])|<=|=<", r"\\le "),
        (r"\\geq(?:slant)?(?![a-z])|>=|=>", r"\\ge "),
        (r"\\neq(?![a-z])|!=", r"\\ne "),
        (r"\\lt(?![a-z])", "<"),
        (r"\\gt(?![a-z])", ">"),
        (r"\\[lr]brace(?![a-z])", lambda brace: r"\{" if brace[0][1] == "l" else r"\}"),
        (r"\\varnothing(?![a-z])|\\\{\s*\\\}", r"\\emptyset "),
        (r"\\mathbb\s*(?:\{R\}|R)", r"\\mathbb{R}"),
        (r"\^\s*\{?\s*\\circ(?![a-z])\s*\}?|\\degree(?![a-z])", r"^\\circ "),
        (r"\^\\circ\s*(?:\\text\s*\{\s*([CF])\s*\}|([CF]))$", r"\\text{ degree \1\2}"),
        (r"\+\s*\\infty", r"\\infty"),
        (r"\*\*", "^"),
        (r"\*", r"\\cdot "),
        (r"(?<![a-zA-Z\\])pi(?![a-zA-Z])", r"\\pi "),
        # Arguments in braces.
        (r"(?<![a-zA-Z\\])sqrt|\\sqrt", r"\\sqrt"),
        (r"\\sqrt\s*\(([^()]*)\)", r"\\sqrt{\1}"),
        (r"\\sqrt\s*(\d|[a-zA-Z](?![a-zA-Z]))", r"\\sqrt{\1}"),
        (r"\\frac\s*([\da-zA-Z])", r"\\frac{\1}"),
        (r"\\frac\s*(\{[^{}]*\})\s*([\da-zA-Z])", r"\\frac\1{\2}"),
        (r"\{(\d+)\}\s*/\s*\{(\d+)\}", r"\1/\2"),
        (r"([\^_])\s*\{\s*([\da-zA-Z])\s*\}", r"\1\2"),
        (r"(?<![a-zA-Z\\])([ie])\s*\(", r"\1 \\cdot ("),
        # Digits in groups of three, and names of powers of ten.
        (r"(?<=\d)\s*(?:\\text\s*\{\s*)?(million|billion|trillion)\b(?:\s*\})?", lambda name: rf"\cdot 10^{_POWERS[name[1]]}"),
        (r"\{,\}", ","),
        (r"\s+", " "),
    )
)  # fmt: skip
_PLAIN = r"[-+]?(?:\d+(?:\.\d*)?|\.\d+)"
_RATIO = re.compile(rf"({_PLAIN})\s*(?:/\s*({_PLAIN}))?")
_MIXED = re.compile(r"(-?)(\d+)\s*(?:\\frac\{\s*(\d+)\s*\}\{\s*(\d+)\s*\}|\s(\d+)/(\d+))")
_FRAC = re.compile(rf"(-?)\s*\\frac\{{\s*({_PLAIN})\s*\}}\{{\s*({_PLAIN})\s*\}}")
_SCIENTIFIC = re.compile(
    rf"(?:({_PLAIN})(?:[eE]|\s*\\(?:times|cdot)\s*10\s*\^)|10\s*\^)\s*\{{?\s*([-+]?\d{{1,3}})\s*\}}?"
)
_REPEATING = re.compile(r"(-?)(\d*)\.(\d*)\\overline\{(\d+)\}")
_GROUPED = re.compile(r"(?<![\d.,_'(\[])(?<!\\\{)[1-9]\d{0,2}(?:([,'_ ])\d{3})(?:\1\d{3})*(?![\d,'_]|\s\d)")
_EUROPEAN = re.compile(r"-?[1-9]\d{0,2}(?:(?:\.\d{3}){2,}|(?:\.\d{3})+(?=,))(?:,\d+)?")


def normal(text: str) -> str:
    """A text in the notation that all comparisons use; a text that is normal already is not changed."""
    text = _SUPERSCRIPTS.sub(lambda run: "^{" + _ascii(run[0]) + "}", text.strip())
    text = _SUBSCRIPTS.sub(lambda run: "_{" + _ascii(run[0]) + "}", text)
    text = _VULGAR.sub(lambda letter: _vulgar(letter[0]), text)
    text = unicodedata.normalize("NFKC", text.translate(_SYMBOLS))
    if len(_DELIMITERS.findall(text)) % 2 == 0:  # an odd one is a dollar
        text = _DELIMITERS.sub("", text)
    for pattern, replacement in _RULES:
        text = pattern.sub(replacement, text)
    text = text.strip()
    if _EUROPEAN.fullmatch(text):
        return text.replace(".", "").replace(",", ".")
    return text


def ungrouped(text: str) -> str:
    """A normal text with each number in groups of three as plain digits: 1,234 is 1234; `1, 234` is a list."""
    return _GROUPED.sub(lambda number: number[0].replace(number[1], ""), text)


def number(text: str) -> Fraction | None:
    r"""The exact number that a normal text without groups of digits is; None for anything else."""
    if sum(letter.isdigit() for letter in text) > MOST_DIGITS:
        return None
    bare = re.sub(r"^([-+])\s+", r"\1", text.strip())
    if match := _MIXED.fullmatch(bare):
        sign, whole, *parts = match.groups()
        above, below = (part for part in parts if part is not None)
        return _ratio(sign, str(int(whole) * int(below) + int(above)), below)
    if match := _FRAC.fullmatch(bare):
        return _ratio(*match.groups())
    if match := _RATIO.fullmatch(bare):
        return _ratio("", match[1], match[2] or "1")
    if match := _SCIENTIFIC.fullmatch(bare):
        return Fraction(match[1] or "1") * Fraction(10) ** int(match[2])
    if match := _REPEATING.fullmatch(bare):
        sign, whole, fixed, period = match.groups()
        nines = 10 ** (len(fixed) + len(period)) - 10 ** len(fixed)
        return _ratio(sign, str(int(whole + fixed + period) - int(whole + fixed or "0")), str(nines))
    return None


def _ratio(sign: str, above: str, below: str) -> Fraction | None:
    if Fraction(below) == 0:
        return None
    value = Fraction(above) / Fraction(below)
    return -value if sign else value


def _ascii(letters: str) -> str:
    return unicodedata.normalize("NFKC", letters).replace("−", "-")


def _vulgar(letter: str) -> str:
    above, below = unicodedata.normalize("NFKC", letter).split("⁄")
    return rf"\frac{{{above}}}{{{below}}}"
