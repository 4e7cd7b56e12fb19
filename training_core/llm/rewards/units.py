"""Units after numbers: `100 dollars` is a correct answer for the label `100`.

The words are those that public mathematics graders ignore (Minerva, PRM800K, DAPO), and their short forms.
"""

import re

_WORDS = {
    "dollar": "dollars, usd",
    "euro": "euros, eur",
    "cent": "cents",
    "percent": "percents",
    "degree": "degrees, deg",
    "radian": "radians, rad",
    "millimeter": "millimeters, millimetre, millimetres, mm",
    "centimeter": "centimeters, centimetre, centimetres, cm",
    "meter": "meters, metre, metres",
    "kilometer": "kilometers, kilometre, kilometres, km",
    "inch": "inches",
    "foot": "feet, ft",
    "yard": "yards, yd",
    "mile": "miles",
    "milligram": "milligrams, mg",
    "gram": "grams, gm",
    "kilogram": "kilograms, kg",
    "pound": "pounds, lb, lbs",
    "ounce": "ounces, oz",
    "milliliter": "milliliters, millilitre, millilitres, ml",
    "liter": "liters, litre, litres",
    "gallon": "gallons",
    "second": "seconds, sec, secs",
    "minute": "minutes, min, mins",
    "hour": "hours, hr, hrs",
    "day": "days",
    "week": "weeks",
    "month": "months",
    "year": "years",
    "mile per hour": "miles per hour, mph",
    "kilometer per hour": "kilometers per hour, kph",
    "unit": "units",
    "way": "ways",
    "point": "points",
    "digit": "digits",
    "integer": "integers",
    "edge": "edges",
    "student": "students",
    "person": "people, persons",
    "meal": "meals",
    "time": "times",
    "multiple": "multiples",
}
_LETTERS = {"m": "meter", "g": "gram", "s": "second", "h": "hour", "l": "liter", "in": "inch", "mi": "mile"}
"""Short forms that can also be variables: units only inside \\text{} or \\mathrm{}."""
_NAMES = {word: name for name, others in _WORDS.items() for word in (name, *others.split(", "))}
_ALTERNATIVES = "|".join(sorted(map(re.escape, _NAMES), key=len, reverse=True))
_POWER = r"(?:\s*\^\s*\{?\s*[23]\s*\}?)?"
_PLAIN = re.compile(
    rf"(?<=[\d\s}}).])\s*(?P<kind>square |cubic )?(?P<unit>{_ALTERNATIVES})(?P<power>{_POWER})\s*\.?$",
    re.IGNORECASE,
)
_MARKED = re.compile(rf"\\(?:text|mathrm|mbox|textrm)\s*\{{(?P<said>[^{{}}]*)\}}(?P<power>{_POWER})\s*\.?$")
_CURRENCY = re.compile(r"^\s*(?:\\\$|[$€£])\s*(?=[-+]?[\d.])(?!.*\$)")
_SIGNS = {"$": "dollar", "€": "euro", "£": "pound sterling"}


def without_unit(text: str) -> tuple[str, str]:
    r"""An answer and its unit, "" if it has none: `12\text{ cm}^2` is ("12", "centimeter^2"), `\$5` is ("5", "dollar")."""
    bare = text.strip()
    if sign := _CURRENCY.match(bare):
        return bare[sign.end() :].strip(), _SIGNS[sign[0].strip()[-1]]
    if marked := _MARKED.search(bare):
        unit = _named(marked["said"], marked["power"])
        rest = bare[: marked.start()].strip()
        return (rest, unit) if unit and rest else (text, "")
    if (plain := _PLAIN.search(bare)) and (rest := bare[: plain.start()].strip()):
        return rest, _named(f"{plain['kind'] or ''}{plain['unit']}", plain["power"])
    return text, ""


def _named(text: str, power: str) -> str:
    """The canonical name of a unit; empty if it is not a unit."""
    words = " ".join(text.replace("\\", " ").strip(" .~,").lower().split())
    kind, _, rest = words.partition(" ")
    raised = {"square": "2", "sq": "2", "cubic": "3"}.get(kind, "")
    words = rest if raised else words
    name = _NAMES.get(words) or _LETTERS.get(words, "")
    raised = raised or "".join(letter for letter in power if letter.isdigit())
    return f"{name}^{raised}" if name and raised else name
