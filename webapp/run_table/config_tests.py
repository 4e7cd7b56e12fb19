"""Conditions over a run's config, written in SQL's JSON path language.

A config is kept out of line and compressed, so that reading it is what a filter over many runs costs. However many
conditions there are, they are joined to one here, which reads it once.
"""

import json
from collections.abc import Iterable, Sequence

from django.db.models import BooleanField, F, Func, Q, Value

_OPERATORS = {"=": "==", "<": "<", "<=": "<=", ">": ">", ">=": ">="}


class ConfigTest(str):
    """A predicate that is true or false of every config, never unknown."""


def config_test(path: Sequence[str], operator: str, value: str | float | bool) -> ConfigTest:
    """Whether the field is there and compares so: =, <, <=, >, >=, or ~ for a part of a text, whatever its case.

    Of a list, whether any of its items does. A value of another type fits nothing. `value` is finite.
    """
    place = "".join(f".{json.dumps(name)}" for name in path)
    if operator == "~":
        # "q": as it is written, not as a regular expression
        return ConfigTest(f'exists(${place} ? (@ like_regex {json.dumps(str(value))} flag "iq"))')
    return ConfigTest(f"exists(${place} ? (@ {_OPERATORS[operator]} {json.dumps(value)}))")


def config_not(test: ConfigTest) -> ConfigTest:
    """Where the test fails."""
    return ConfigTest(f"!({test})")


def config_joined(tests: Iterable[ConfigTest], connector: str) -> ConfigTest:
    """All of them by && or ||."""
    return ConfigTest("(" + f" {connector} ".join(tests) + ")")


def config_fits(test: ConfigTest) -> Q:
    """Runs of which the test is true."""
    matches = Func(
        F("config"),
        Value(str(test)),
        template="(%(expressions)s::jsonpath)",
        arg_joiner=" @@ ",
        output_field=BooleanField(),
    )
    return Q(matches)
