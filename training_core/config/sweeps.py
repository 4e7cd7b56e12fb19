"""Sweeps: one run per combination of field values."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import Any, Literal

from training_core.config.files import parse_toml, parse_value
from training_core.errors import ConfigError

SEED = "run.seed"
Method = Literal["grid", "list"]
MOST_STEPS = 1000
"""Maximum number of values in one range a..b."""


def parse_values(text: str) -> list[Any]:
    """`1e-4, 3e-4`, `best, sampled`, `[0.9, 0.99], [0.8, 0.95]`, `0..4` (both ends): one value each.

    Raises ConfigError if there is none.
    """
    try:
        values = parse_toml(f"values = [{text}]")["values"]
    except ValueError:
        values = [value for part in _parts(text) for value in _spanned(part)]
    if not values:
        raise ConfigError({"": "give one or more values, separated by commas"})
    return list(values)


def parse_axes(words: Sequence[str]) -> dict[str, list[Any]]:
    """`field=value,value` words by field. Raises ConfigError."""
    axes: dict[str, list[Any]] = {}
    for word in words:
        path, sign, text = word.partition("=")
        path = path.strip().removeprefix("--")
        if not sign or not path:
            raise ConfigError({path: f"{word!r} is not of the form field=value,value"})
        if path in axes:
            raise ConfigError({path: "is given twice"}, remedy="put all its values after one =")
        try:
            axes[path] = parse_values(text)
        except ConfigError as error:
            raise ConfigError({path: error.fields[""]}) from error
    return axes


def _parts(text: str) -> Iterator[str]:
    """Parts between commas outside brackets and quotes."""
    part, depth, quote = "", 0, ""
    for char in text:
        if quote:
            quote = "" if char == quote else quote
        elif char in "\"'":
            quote = char
        depth += (not quote) * ((char in "[{") - (char in "]}"))
        if char == "," and not depth and not quote:
            yield part.strip()
            part = ""
        else:
            part += char
    yield part.strip()


def _spanned(part: str) -> list[Any]:
    low, dots, high = part.partition("..")
    if dots and low.strip().isdecimal() and high.strip().isdecimal():
        first, last = int(low), int(high)
        if last - first >= MOST_STEPS:
            raise ConfigError({"": f"{part} has more than {MOST_STEPS} values"})
        return list(range(first, last + 1))
    return [parse_value(part)] if part else []


def combinations(axes: Mapping[str, Sequence[Any]], method: Method = "grid") -> Iterator[dict[str, Any]]:
    """The fields that each run of a sweep sets: field -> value; seeds vary fastest.

    grid: every combination. list: the n-th values of all axes together, with every seed. Raises ConfigError if a
    list's axes differ in length.
    """
    seeds = [{SEED: seed} for seed in axes.get(SEED, ())] or [{}]
    rest = {path: values for path, values in axes.items() if path != SEED}
    if method == "list" and len({len(values) for values in rest.values()}) > 1:
        lengths = ", ".join(f"{path} has {len(values)}" for path, values in rest.items())
        raise ConfigError({"method": f"a list needs equally many values of each field: {lengths}"})
    rows = zip(*rest.values(), strict=True) if method == "list" and rest else product(*rest.values())
    for row in rows:
        for seed in seeds:
            yield dict(zip(rest, row, strict=True)) | seed


def count(axes: Mapping[str, Sequence[Any]], method: Method = "grid") -> int:
    """The number of runs of a sweep, without creating them."""
    total = 1
    for path, values in axes.items():
        if method == "grid" or path == SEED:
            total *= len(values)
    rest = [len(values) for path, values in axes.items() if path != SEED]
    return total * max(rest) if method == "list" and rest else total


def expand_path(path: str, tree: Mapping[str, Any]) -> list[str]:
    """Expand a field path in which `*` matches every name: policies.*.learner.learning_rate.

    Empty if nothing matches.
    """
    matches: list[tuple[list[str], Any]] = [([], tree)]
    for part in path.split("."):
        below: list[tuple[list[str], Any]] = []
        for names, here in matches:
            inside = here if isinstance(here, Mapping) else {}
            chosen = list(inside) if part == "*" else [part]
            below += [([*names, name], inside.get(name)) for name in chosen]
        matches = below
    return [".".join(names) for names, _ in matches]
