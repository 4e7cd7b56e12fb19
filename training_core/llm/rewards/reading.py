r"""What an answer is: a word, a quantity, an equation, a list, or an interval.

`read` splits a text in normal notation (notation.py) into an `Answer`; it does not compute.
"""

import re
from dataclasses import dataclass
from fractions import Fraction

from training_core.llm.rewards.notation import number, ungrouped
from training_core.llm.rewards.units import Unit, without_unit

_TOKEN = re.compile(r"\\[a-zA-Z]+\s?|\\.|\b(?:and|or)\b|<|>|.", re.DOTALL)
_OPENS, _CLOSES = {"(", "[", "{", r"\{"}, {")", "]", "}", r"\}"}
_SEPARATORS = {",", ";", r"\cup", "or", "and", r"\lor", r"\land"}
_RELATIONS = {"=", "<", ">", r"\le", r"\ge", r"\ne", r"\in", r"\approx"}
_INEQUALITY = re.compile(r"[<>]|\\(?:le|ge|ne)(?![a-z])")
_MIRRORED = {"<": ">", ">": "<", r"\le": r"\ge", r"\ge": r"\le"}
_WORD = r"[^\W\d_]+"
_INDEX = r"(?:_(?:\w|\{[^{}]*\}|\\text\s*\{[^{}]*\}))?'*"
_LETTER = rf"(?:{_WORD}|\\(?:alpha|beta|gamma|delta|epsilon|theta|lambda|mu|phi|varphi|omega|rho|sigma|Delta)(?![a-z])){_INDEX}"
_NAME = re.compile(
    rf"(?:\\(?:angle|triangle|overline|vec)\s*)?\{{?\s*{_LETTER}\s*\}}?(?:\([^()<>=]*\))?|\|[A-Z]{{2}}\|"
    rf"|\(\s*{_LETTER}(?:\s*,\s*{_LETTER})*\s*\)|\\frac\{{\s*{_LETTER}\s*\}}\{{\s*{_LETTER}\s*\}}|{_LETTER}\s*:\s*{_LETTER}"
    r"|\\text\s*\{[^{}]*\}"
)  # fmt: skip
"""What stands before the equals sign of a result: `x`, `f(x)`, `(p,q)`, `\\angle ABC`."""
_LONGEST_NAME = 60
_SUCH_THAT = re.compile(r"\\\{(.*?)(?:\\in\s*\\mathbb\{R\}\s*)?(?:\||:|\\mid)(.*)\\\}", re.DOTALL)
_WHOLE_TEXT = re.compile(r"\\text\s*\{([^{}]*)\}")
_BASE = re.compile(r"-?[\da-zA-Z]*\d[\da-zA-Z]*_(?:\d|\{\s*\d+\s*\}|\\text\s*\{[^{}]*\})")
_RATIO = re.compile(r"\d+(?:\.\d+)?(?:\s*:\s*\d+(?:\.\d+)?)+")
_CLOCK = re.compile(r"(\d{1,2}):([0-5]\d)(?::([0-5]\d))?\s*(?:\\text\s*\{)?\s*([AaPp]\.?[Mm]\.?)?\s*\}?")
_PROSE = re.compile(r"(?:^|\s)[^\W\d_]{3,}(?=\s|$)")
_SEVERAL_NUMBERS = re.compile(r"(?=.*\d\s+\.?\d)[\d.\s-]+")
_ALL_REALS = (r"(-\infty,\infty)", {r"\mathbb{r", "all real numbers", "all reals"})


@dataclass(frozen=True)
class Answer:
    """A part of an answer, or all of it."""

    source: str
    name: str = ""
    """The variable of an equation or inequality."""
    value: str = ""
    unit: Unit | None = None
    brackets: str = ""
    """`()`, `[)` and so on around an ordered list or interval; empty for what has no order."""
    parts: tuple["Answer", ...] = ()
    """The elements of a list, a set, a union; the ends of an interval."""

    @property
    def number(self) -> Fraction | None:
        """The exact number, without its unit."""
        return None if self.parts else number(self.value)


def read(text: str) -> Answer:
    """The structure of a normal text."""
    text = ungrouped(_without_outer(text.strip()))
    text = _ALL_REALS[0] if text.lower().removeprefix(r"\text{").removesuffix("}") in _ALL_REALS[1] else text
    if such := _SUCH_THAT.fullmatch(text):
        return read(such[2])
    pieces, separators = _split(text, _SEPARATORS)
    if len(pieces) > 1:
        return _list(text, pieces, separators)
    if bracketed := _bracketed(text):
        return bracketed
    if r"\pm" in text.replace(r"\pmod", "") and len(signs := re.findall(r"\\pm(?![a-z])", text)) == len(
        signs[:1]
    ):
        return Answer(text, parts=tuple(read(_signed(text, sign)) for sign in "+-"))
    sides, relations = _split(text, _RELATIONS)
    if len(sides) > 1:
        return _relation(text, sides, relations)
    return _quantity(text)


def is_text(value: str) -> bool:
    """Whether a value is words, which are compared letter by letter."""
    if value.startswith(r"\text"):
        return True
    return re.fullmatch(rf"{_WORD}(?:[\s'-]+{_WORD})*", value) is not None or bool(_PROSE.search(value))


def stands_for_itself(value: str) -> bool:
    """Whether a value is digits with the base as subscript, or several numbers: these stand for themselves."""
    return bool(_BASE.fullmatch(value) or _SEVERAL_NUMBERS.fullmatch(value))


def ratio(value: str) -> tuple[str, ...] | None:
    """The terms of a ratio as `3:4`; None for anything else."""
    return tuple(re.split(r"\s*:\s*", value)) if _RATIO.fullmatch(value) else None


def clock(value: str) -> tuple[frozenset[int], int, int] | None:
    """Possible hours of the day, minute and second of a time of day; None for anything else."""
    match = _CLOCK.fullmatch(value)
    if not match:
        return None
    hour, half = int(match[1]), (match[4] or "")[:1].upper()
    both = {hour % 12, hour % 12 + 12} if half or hour <= 12 else {hour}
    hours = {time for time in both if not half or (time >= 12) == (half == "P")}
    return frozenset(hours), int(match[2]), int(match[3] or 0)


def _is_name(text: str) -> bool:
    return len(text) <= _LONGEST_NAME and _NAME.fullmatch(text) is not None


def _split(text: str, marks: set[str]) -> tuple[list[str], list[str]]:
    """The pieces of a text between marks outside all brackets, and these marks. Unbalanced brackets: no split."""
    pieces, marked, depth, start = [""], [], 0, 0
    for token in _TOKEN.finditer(text):
        word = token[0].strip()
        depth += (word in _OPENS) - (word in _CLOSES)
        if depth == 0 and word in marks:
            pieces[-1] = text[start : token.start()].strip()
            pieces.append("")
            marked.append(word)
            start = token.end()
    pieces[-1] = text[start:].strip()
    if depth or not all(pieces[:1]) and len(pieces) > 1:
        return [text], []
    return pieces, marked


def _without_outer(text: str) -> str:
    r"""A text without a group, parentheses or \text{} around one whole answer."""
    for _ in range(8):
        if match := _WHOLE_TEXT.fullmatch(text):
            inner = match[1].strip()
            if not re.search(r"\d|,", inner):
                return text
        elif text[:1] + text[-1:] in ("{}", "()") and _closes_last(text):
            inner = text[1:-1].strip()
            if text[0] == "(" and len(_split(inner, {",", ";"})[0]) > 1:
                return text
        else:
            return text
        text = inner
    return text


def _closes_last(text: str) -> bool:
    """Whether the bracket that a text begins with closes at its end."""
    depth = 0
    for token in _TOKEN.finditer(text):
        depth += (token[0] in _OPENS) - (token[0] in _CLOSES)
        if depth == 0:
            return token.end() == len(text)
    return False


def _list(text: str, pieces: list[str], separators: list[str]) -> Answer:
    """An unordered list. Inequalities joined by "and" hold together: they stay one text."""
    together = {"and", r"\land"} & set(separators)
    parts = [read(piece) for piece in pieces if piece]
    if together and any(_INEQUALITY.search(piece) for piece in pieces):
        return Answer(text, value=text)
    if len(parts) == 1:
        return parts[0]
    flat = (part.parts if part.parts and not part.brackets else (part,) for part in parts)
    return Answer(text, parts=tuple(element for some in flat for element in some))


def _bracketed(text: str) -> Answer | None:
    """A tuple, an interval or a set."""
    opening = r"\{" if text.startswith(r"\{") else text[:1]
    closing = r"\}" if text.endswith(r"\}") else text[-1:]
    if opening not in {"(", "[", r"\{"} or closing not in {")", "]", r"\}"} or not _closes_last(text):
        return None
    pieces, _ = _split(text[len(opening) : -len(closing)].strip(), {",", ";"})
    if opening == r"\{" and closing == r"\}":
        return _list(text, pieces, [])
    if len(pieces) < 2 or r"\}" in (opening, closing):
        return None
    return Answer(text, brackets=opening + closing, parts=tuple(map(read, pieces)))


def _relation(text: str, sides: list[str], relations: list[str]) -> Answer:
    """A result `x = 5`, an inequality as interval, or an equation as its text."""
    first, last = sides[0], sides[-1]
    if set(relations) <= {"=", r"\approx"} or relations == [r"\in"]:
        if not _is_name(first) and _is_name(last) and number(first) is not None:
            first, last = last, first
        if _is_name(first):
            inner = read(last)
            return Answer(text, first.replace(" ", ""), inner.value, inner.unit, inner.brackets, inner.parts)
        return Answer(text, value=text)
    return _inequality(text, sides, relations) or Answer(text, value=text)


def _inequality(text: str, sides: list[str], relations: list[str]) -> Answer | None:
    r"""`a < x \le b`, `x > a`, `x \ne a` with constants a, b as intervals; None for other inequalities."""
    if len(sides) == 2:
        if not _is_name(sides[0]) and relations[0] in _MIRRORED:
            sides, relations = sides[::-1], [_MIRRORED[relations[0]]]
        name, end = sides
        low, high = ("", end) if relations[0] in ("<", r"\le") else (end, "")
    elif len(sides) == 3 and set(relations) <= {"<", r"\le"}:
        low, name, high = sides
    elif len(sides) == 3 and set(relations) <= {">", r"\ge"}:
        high, name, low = sides
        relations = relations[::-1]
    else:
        return None
    bare = re.sub(r"\\[a-zA-Z]+", "", low + high)
    if not _is_name(name) or "|" in name or re.search(r"[a-df-zA-Z]", bare):
        return None
    if relations == [r"\ne"]:
        below, above = _interval(text, "", "(", low, ")"), _interval(text, low, "(", "", ")")
        return Answer(text, name, parts=(below, above))
    opening = "[" if low and relations[0] in (r"\le", r"\ge") else "("
    closing = "]" if high and relations[-1] in (r"\le", r"\ge") else ")"
    return Answer(
        text, name, brackets=opening + closing, parts=_interval(text, low, opening, high, closing).parts
    )


def _interval(text: str, low: str, opening: str, high: str, closing: str) -> Answer:
    ends = (read(low or r"-\infty"), read(high or r"\infty"))
    return Answer(text, brackets=opening + closing, parts=ends)


def _signed(text: str, sign: str) -> str:
    other = "-" if sign == "+" else "+"
    text = re.sub(r"\\mp(?![a-z])\s*", other, re.sub(r"\\pm(?![a-z])\s*", sign, text))
    return re.sub(r"(^|[=(,{])\s*\+", r"\1", text)


def _quantity(text: str) -> Answer:
    """A number, an expression or a word, with its unit."""
    value, unit = without_unit(text) if not clock(text) else (text, None)
    if value != text:
        value = _without_outer(value)
    words = _WHOLE_TEXT.fullmatch(value)
    return Answer(text, value=words[0] if words else value, unit=unit)
