r"""Units of answers: `100 dollars` is a correct answer for the label `100`, `100 cents` is one for `1 dollar`.

A unit is a product of powers of dimensions with a factor. A word that the table does not contain is a dimension of its own:
`3 apples` are not `3 pears`.
"""

import re
from dataclasses import dataclass
from fractions import Fraction

_TABLE = """
length: m meter metre = 1; mm millimeter millimetre = 1/1000; cm centimeter centimetre = 1/100; km kilometer kilometre = 1000;
 in inch inches = 254/10000; ft foot feet = 3048/10000; yd yard = 9144/10000; mi mile = 1609344/1000
mass: g gm gram = 1; mg milligram = 1/1000; kg kilogram = 1000; lb pound = 45359237/100000; oz ounce = 45359237/1600000
time: s sec second = 1; min minute = 60; h hr hour = 3600; day = 86400; week = 604800
month: month = 1; year yr = 12
length^3: L l liter litre = 1/1000; mL ml milliliter millilitre = 1/1000000; gallon gal = 3785411784/1000000000000
dollar: dollar usd = 1; cent = 1/100
euro: euro eur = 1
pound sterling: gbp = 1
percent: percent percentage pct = 1
degree: degree deg = 1
radian: radian rad = 1
person: person people = 1
"""
_SHORTHANDS = {"mph": "mile/hour", "kph": "km/hour", "kmph": "km/hour"}
_SIGNS = {"$": "dollar", "€": "euro", "£": "gbp"}
WITHOUT_UNIT = {"percent": r"\frac{1}{100}", "degree": r"\frac{\pi}{180}", "radian": "1"}
"""The factor of a unit that is a number."""
_POWER = r"(?:\s*\^\s*\{?\s*-?[1-9]\s*\}?)?"
_MARKED = re.compile(
    rf"\\text\s*\{{([^{{}}\d]*)\}}({_POWER})(?:\s*/\s*\\text\s*\{{([^{{}}\d]*)\}}({_POWER}))?$"
)
_SIGN = re.compile(r"\s*(?:\\?%|\^\\circ)$")
_WORDS = re.compile(
    rf"(?:(?<=[\d}})])|(?<=\\pi))(\s*)([A-Za-z]+{_POWER}(?:(?:\s*/\s*|\s+)[A-Za-z]+{_POWER}){{0,4}})$"
)
_BEFORE = re.compile(r"^([-+]?)\s*\\?([$€£])\s*(?=[-+\d.])")
_AFTER = re.compile(r"(?<=\d)\s*\\?([$€£])$")
_NOT_UNITS = {
    "and", "or", "not", "no", "if", "when", "for", "except", "least", "most", "more", "less", "fewer", "than", "at",
    "sin", "cos", "tan", "log", "exp", "mod", "wrong", "false",
}  # fmt: skip
"""Words that change what stands before them."""


@dataclass(frozen=True)
class Unit:
    """Powers of dimensions, and the factor to the unit of each dimension that has factor 1."""

    dimensions: tuple[tuple[str, int], ...]
    factor: Fraction

    @property
    def as_number(self) -> str:
        """The number that one of this unit is, as LaTeX; empty for most units."""
        return WITHOUT_UNIT.get(self.dimensions[0][0], "") if len(self.dimensions) == 1 else ""


def _entries() -> dict[str, tuple[str, int, Fraction]]:
    entries: dict[str, tuple[str, int, Fraction]] = {}
    for line in _TABLE.strip().replace(";\n", ";").split("\n"):
        kind, _, units = line.partition(":")
        dimension, _, power = kind.partition("^")
        for unit in units.split(";"):
            names, _, factor = unit.partition("=")
            entries |= {
                name: (dimension, int(power or 1), Fraction(factor.strip())) for name in names.split()
            }
    return entries


_UNITS = _entries()


def without_unit(text: str) -> tuple[str, Unit | None]:
    r"""A normal text and its unit, None if it has none: `12\text{ cm}^2` is 12 and cm²."""
    if sign := _BEFORE.match(text) or _AFTER.search(text):
        bare = text[: sign.start()] + (sign[1] + text[sign.end() :] if sign.re is _BEFORE else "")
        return bare.strip(), unit(_SIGNS[sign[sign.lastindex or 1]])
    if sign := _SIGN.search(text):
        return _rest(text, sign.start(), "percent" if "%" in sign[0] else "degree")
    if marked := _MARKED.search(text):
        below = f"/{marked[3]}{marked[4]}" if marked[3] else ""
        return _rest(text, marked.start(), f"{marked[1].strip()}{marked[2]}{below}")
    if words := _WORDS.search(text):
        names = re.findall(r"[A-Za-z]+", words[2])
        if _spelled_out(names, spaced=bool(words[1]), quotient="/" in words[2]):
            return _rest(text, words.start(), words[2])
    return text, None


def unit(text: str) -> Unit:
    """The unit that a text names: `square feet`, `km/h`, `meters per second`."""
    words = re.sub(
        r"\bper\b", "/", " ".join(_SHORTHANDS.get(word, word) for word in text.strip(" .").split())
    )
    words = re.sub(
        r"\b(square|sq|cubic)\.?\s+([A-Za-z]+)", lambda of: f"{of[2]}^{3 if of[1] == 'cubic' else 2}", words
    )
    powers: dict[str, int] = {}
    factor = Fraction(1)
    for position, product in enumerate(words.split("/")):
        names = re.findall(r"([A-Za-z]+)\s*(?:\^\s*\{?\s*(-?\d))?", product)
        if not all(_entry(name) for name, _ in names):
            phrase = " ".join(_singular(name) for name, _ in names)
            names = [(phrase, "".join(power for _, power in names))]
        for name, power in names:
            dimension, own, size = _entry(name) or (name, 1, Fraction(1))
            exponent = int(power or 1) * (-1 if position else 1)
            factor *= size**exponent
            powers[dimension] = powers.get(dimension, 0) + own * exponent
    return Unit(tuple(sorted((name, power) for name, power in powers.items() if power)), factor)


def _entry(name: str) -> tuple[str, int, Fraction] | None:
    return _UNITS.get(name) or _UNITS.get(_singular(name))


def _singular(name: str) -> str:
    lower = name.lower() if len(name) > 2 else name
    return lower[:-1] if len(lower) > 2 and lower.endswith("s") and not lower.endswith("ss") else lower


def _spelled_out(names: list[str], *, spaced: bool, quotient: bool) -> bool:
    """Whether words after a number are a unit although nothing marks them as text."""
    if all(_entry(name) or name in _SHORTHANDS for name in names):
        return quotient and spaced or any(len(name) > 1 for name in names)
    return spaced and any(len(name) > 2 for name in names)


def _rest(text: str, end: int, name: str) -> tuple[str, Unit | None]:
    """The text before a unit. Words after nothing, or after an operator, are no unit."""
    rest = text[:end].strip()
    if _NOT_UNITS & set(re.findall("[a-z]+", name.lower())):
        return text, None
    if not re.search(r"[\da-zA-Z})]$", rest) or r"^\circ" in rest or not re.search("[a-zA-Z]", name):
        return text, None
    return rest, unit(name)
