"""Conditions on a run's config as SQL/JSON path expressions.

A config is stored out of line and compressed, so that reading it dominates the cost of a filter over many runs. All
conditions are joined into one expression here, which reads it once.
"""

import json
from collections.abc import Iterable, Sequence

from django.db.models import Q

from webapp.common.query_language import json_fits, json_predicate


class ConfigTest(str):
    """A predicate that is true or false for every config, never unknown."""


def config_test(path: Sequence[str], operator: str, value: str | float | bool) -> ConfigTest:
    """Return the test whether the field exists and satisfies =, <, <=, >, >=, or ~ for a case-insensitive substring.

    For a list, whether any item does. A value of another type never matches. `value` is finite.
    """
    json_path = "".join(f".{json.dumps(name)}" for name in path)
    return ConfigTest(json_predicate(f"${json_path}", operator, value))


def config_not(test: ConfigTest) -> ConfigTest:
    """Return the negation of the test."""
    return ConfigTest(f"!({test})")


def config_joined(tests: Iterable[ConfigTest], connector: str) -> ConfigTest:
    """Join the tests with && or ||."""
    return ConfigTest("(" + f" {connector} ".join(tests) + ")")


def config_fits(test: ConfigTest) -> Q:
    """Return the condition on runs that the test is true."""
    return Q(json_fits("config", str(test)))
