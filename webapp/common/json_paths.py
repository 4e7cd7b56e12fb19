"""Conditions on JSON columns as SQL/JSON path predicates."""

import json
from typing import Any

from django.db.models import BooleanField, F, Func, Value

_OPERATORS = {"=": "==", "<": "<", "<=": "<=", ">": ">", ">=": ">="}


def json_predicate(path: str, operator: str, value: str | float | bool) -> str:
    """Return the predicate whether a value at the path satisfies =, <, <=, >, >=, or ~ for a case-insensitive substring.

    It is true or false for every document, never unknown. A value of another type never matches. `value` is finite.
    """
    if operator == "~":
        # "q": literal text, not a regular expression
        return f'exists({path} ? (@ like_regex {json.dumps(str(value))} flag "iq"))'
    return f"exists({path} ? (@ {_OPERATORS[operator]} {json.dumps(value)}))"


def json_fits(column: str, predicate: str) -> Any:
    """Return the expression that the predicate is true for a JSON column; the predicate is a bound parameter."""
    return Func(
        F(column),
        Value(predicate),
        template="(%(expressions)s::jsonpath)",
        arg_joiner=" @@ ",
        output_field=BooleanField(),
    )
