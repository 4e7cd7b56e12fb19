"""The filter language of the runs table: `algorithm.type = at_grpo and eval/success > 0.8`.

A word with a slash, in quotes or after `metric.` is a metric (its last value, or another measure: `eval/success:max`), one with
a dot a config field, a plain one a fact of the run or, compared with a number, a metric. A word without an operator is searched in
names, ids, presets and tags.
All user input reaches the database as bound parameters.
"""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from math import isfinite
from typing import Any

from django.db.models import Exists, OuterRef, Q, QuerySet
from django.utils import timezone
from lark import Token, v_args

from webapp.common.query_language import (
    LOOKUPS,
    Compiler,
    FilterError,
    column_of,
    condition_read,
    flag_check,
    is_number,
    number_check,
    number_fits,
    text_check,
    unquoted,
)
from webapp.metrics.measures import MEASURES, is_metric, metric_read
from webapp.metrics.models import Series
from webapp.run_table.config_tests import ConfigTest, config_fits, config_joined, config_not, config_test
from webapp.runs.models import Run, RunNote, RunState

_COLUMNS: dict[str, str] = {
    "name": "name",
    "id": "id",
    "state": "state",
    "preset": "preset",
    "owner": "owner__username",
    "project": "project__slug",
    "source": "source",
    "family": "family",
    "sweep": "sweep__name",
    "parent": "parent_id",
}
_NUMBERS = {"iteration": "iteration", "iterations": "iterations", "priority": "priority"}
_MOMENTS = {"created": "created_at", "started": "started_at", "ended": "ended_at"}
_FLAGS = {"archived": "archived"}
FIELDS: dict[str, str] = {
    **dict.fromkeys(_COLUMNS, "text"),
    **dict.fromkeys(_NUMBERS, "number"),
    **dict.fromkeys(_MOMENTS, "time: 2026-01-31, or -7d, -12h for newer than that"),
    **dict.fromkeys(_FLAGS, "true or false"),
    "tag": "text",
    "note": "text; any of its notes",
}
"""Facts of a run, and the type of their values."""
_UNITS = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


def runs_filter(runs: QuerySet[Run], text: str) -> QuerySet[Run]:
    """Return the runs that match the filter. Raises FilterError."""
    if not text.strip():
        return runs
    condition = condition_read(text, _RunCompiler())
    return runs.filter(config_fits(condition) if isinstance(condition, ConfigTest) else condition)


@v_args(inline=True)
class _RunCompiler(Compiler):
    """Conditions on runs."""

    def joined(self, parts: Sequence["Condition"], connector: str) -> "Condition":
        return _joined(parts, connector)

    def negated(self, part: "Condition") -> "Condition":
        return config_not(part) if isinstance(part, ConfigTest) else ~part

    def words(self, token: Token) -> Q:
        text = unquoted(token)
        return (
            Q(name__icontains=text)
            | Q(pk__icontains=text)
            | Q(preset__icontains=text)
            | Q(tags__contains=[text])
        )

    def compare(self, field: Token, operator: str, value: Any) -> "Condition":
        name = str(field)
        if name in FIELDS:
            return _of_run(field, operator, value)
        if field.type == "QUOTED" or is_metric(name):
            return _of_metric(field, operator, value)
        if "." in name:
            return _of_config(field, operator, value)
        if is_number(value) and operator != "~":
            return _of_metric(field, operator, value)
        known = ", ".join(FIELDS)
        raise FilterError(
            f"{name!r} is not a field: use {known}, a config field (algorithm.type) or a metric (loss < 1)",
            column_of(field),
        )


Condition = Q | ConfigTest


def _joined(parts: Sequence[Condition], connector: str) -> Condition:
    """Join all parts by and, or by or; conditions on the config become one, so that it is read once."""
    tests = [part for part in parts if isinstance(part, ConfigTest)]
    rest = [part for part in parts if isinstance(part, Q)]
    if tests:
        test = config_joined(tests, "||" if connector == Q.OR else "&&")
        if not rest:
            return test
        # Last: the database evaluates cheap conditions first.
        rest.append(config_fits(test))
    return Q(*rest, _connector=connector)


def _of_config(field: Token, operator: str, value: Any) -> ConfigTest:
    """Return the condition on a config field; runs without it do not match."""
    text = isinstance(value, str)
    if operator not in ("=", "~") and (text or isinstance(value, bool)):
        how = "= and ~" if text else "= or !="
        raise FilterError(f"compare {field} with a number, or by {how}", column_of(field))
    if isinstance(value, float) and not isfinite(value):
        raise FilterError(f"{field} cannot be that large", column_of(field))
    return config_test(str(field).split("."), operator, value)


def _of_metric(field: Token, operator: str, value: Any) -> Q:
    """Return the condition on a measure of a metric (webapp.metrics.measures); runs without it do not match."""
    number_check(field, operator, value)
    key, measure = metric_read(unquoted(field))
    lookup = {"key": key, f"{MEASURES[measure]}{LOOKUPS[operator]}": float(value)}
    return Q(Exists(Series.objects.filter(run=OuterRef("pk"), **lookup)))


def _of_run(field: Token, operator: str, value: Any) -> Q:
    name = str(field)
    for columns, compare in _KINDS:
        if name in columns:
            return compare(field, columns[name], operator, value)
    return _tag(field, operator, value) if name == "tag" else _note(field, operator, value)


def _text(field: Token, column: str, operator: str, value: Any) -> Q:
    text_check(field, operator)
    if str(field) == "state" and operator == "=" and value not in RunState.values:
        raise FilterError(f"a state is one of {', '.join(RunState.values)}", column_of(field))
    return Q(**{f"{column}{LOOKUPS[operator]}": str(value)})


def _flag(field: Token, column: str, operator: str, value: Any) -> Q:
    flag_check(field, operator, value)
    return Q(**{column: value})


def _moment(field: Token, column: str, operator: str, value: Any) -> Q:
    if operator in ("=", "~"):
        raise FilterError(f"compare {field} with <, <=, > or >=", column_of(field))
    return Q(**{f"{column}{LOOKUPS[operator]}": _when(field, str(value))})


def _when(field: Token, text: str) -> datetime:
    try:
        if text.startswith("-") and text[-1:] in _UNITS:
            return timezone.now() - timedelta(**{_UNITS[text[-1]]: float(text[1:-1])})
        moment = datetime.fromisoformat(text)
        return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    except (ValueError, OverflowError):
        raise FilterError(f"{text!r} is not a time: use 2026-01-31, or -7d", column_of(field)) from None


def _tag(field: Token, operator: str, value: Any) -> Q:
    if operator == "~":
        return Q(tags__icontains=str(value))
    if operator != "=":
        raise FilterError("compare a tag with =, !=, ~ or in", column_of(field))
    return Q(tags__contains=[str(value)])


def _note(field: Token, operator: str, value: Any) -> Q:
    if operator not in ("=", "~"):
        raise FilterError("compare a note with =, !=, ~ or in", column_of(field))
    lookup = {f"text{LOOKUPS[operator]}": str(value)}
    return Q(Exists(RunNote.objects.filter(run=OuterRef("pk"), **lookup)))


_KINDS: tuple[tuple[dict[str, str], Callable[[Token, str, str, Any], Q]], ...] = (
    (_COLUMNS, _text),
    (_NUMBERS, number_fits),
    (_MOMENTS, _moment),
    (_FLAGS, _flag),
)
