"""Which runs the table lists, and their order: the parameters of its address, and the filter language
`algorithm.type = at_grpo and eval/success > 0.8`.

A word with a slash, in quotes or after `metric.` is a metric (its last value, or another measure: `eval/success:max`), one with
a dot a config field, a plain one a fact of the run or, compared with a number, a metric. A word without an operator is searched in
names, ids, presets and tags. All user input reaches the database as bound parameters.

A config is stored out of line and compressed, so that reading it dominates the cost of a filter over many runs. All conditions on it are
joined into one SQL/JSON path expression, which reads it once.
"""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from math import isfinite, nan
from typing import Any, Literal

from django.db.models import Exists, F, FilteredRelation, FloatField, OuterRef, Q, QuerySet, Value
from django.db.models.fields.json import KeyTextTransform, KeyTransform
from django.db.models.functions import Cast, NullIf
from django.utils import timezone
from lark import Token, v_args
from pydantic import BaseModel, Field, field_validator

from troupe_client.documents.runs import State
from webapp.accounts.permissions import Person
from webapp.common.query_language import (
    LOOKUPS,
    Compiler,
    FilterError,
    column_of,
    condition_read,
    flag_check,
    is_number,
    json_fits,
    json_predicate,
    number_check,
    number_fits,
    text_check,
    unquoted,
)
from webapp.metrics.headline import HEADLINE
from webapp.metrics.models import Series
from webapp.metrics.names import MEASURES, is_metric, metric_read
from webapp.runs.models import Run, RunNote, RunState
from webapp.runs.selectors import runs_visible


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


SORT_COLUMNS = {
    "created": "created_at",
    "started": "started_at",
    "ended": "ended_at",
    "name": "name",
    "state": "state",
    "iteration": "iteration",
    "priority": "priority",
    "owner": "owner__username",
    "project": "project__slug",
    "preset": "preset",
}
SORTS = (*SORT_COLUMNS, *HEADLINE)
"""Sort orders of runs, in addition to any metric and any config field; a minus prefix means descending."""
SORT_WORDS = f"one of {', '.join(SORTS)}, a metric (eval/success:max), or a config field (run.seed)"
LONGEST = 250


def is_sort(wanted: str) -> bool:
    """Whether this is a valid sort order."""
    name = wanted.removeprefix("-")
    return name in SORTS or (
        0 < len(name) < LONGEST and "\0" not in name and (is_metric(name) or "." in name)
    )


def runs_sort(runs: QuerySet[Run], wanted: str) -> QuerySet[Run]:
    """Sort runs, with the newest first among equals; runs without a value, or with NaN, are last."""
    name = wanted.removeprefix("-")
    if not is_sort(wanted):
        return runs.order_by("-created_at", "-pk")
    runs, expression = (runs, F(SORT_COLUMNS[name])) if name in SORT_COLUMNS else value_of(runs, name)
    ordered = expression.desc(nulls_last=True) if wanted.startswith("-") else expression.asc(nulls_last=True)
    return runs.order_by(ordered, "-created_at", "-pk")


def value_of(runs: QuerySet[Run], name: str) -> tuple[QuerySet[Run], Any]:
    """Return the runs with the expression of a metric's or config field's value for each; NaN is null."""
    if name in HEADLINE:
        return runs, _number(Cast(KeyTextTransform(name, "headline"), FloatField()))
    if is_metric(name):
        key, measure = metric_read(name)
        runs = runs.alias(sorted_series=FilteredRelation("series", condition=Q(series__key=key)))
        return runs, _number(F(f"sorted_series__{MEASURES[measure]}"))
    expression: Any = F("config")
    for part in name.split("."):
        expression = KeyTransform(part, expression)
    return runs, expression


def without(expression: Any, value: float) -> Any:
    """Replace a value that is not finite with null."""
    return NullIf(expression, Value(value, output_field=FloatField()))


def _number(expression: Any) -> Any:
    return without(expression, nan)


def runs_list(user: Person, filters: Mapping[str, Any] | None = None) -> QuerySet[Run]:
    """Return runs newest first, or by `sort`. Filters: q (words in name, id, preset or tags), state, tag, project (slug), filter
    (webapp.run_table.filters). Archived runs are hidden unless requested by `archived` or the filter.

    Raises FilterError.
    """
    filters = filters or {}
    runs = runs_sort(runs_visible(user), str(filters.get("sort", "")))
    if not filters.get("archived") and "archived" not in str(filters.get("filter", "")):
        runs = runs.filter(archived=False)
    if filters.get("state"):
        runs = runs.filter(state=filters["state"])
    if filters.get("tag"):
        runs = runs.filter(tags__contains=[filters["tag"]])
    if filters.get("project"):
        runs = runs.filter(project__slug=filters["project"])
    for word in str(filters.get("q", "")).split():
        runs = runs.filter(
            Q(name__icontains=word)
            | Q(pk__icontains=word)
            | Q(preset__icontains=word)
            | Q(tags__contains=[word])
        )
    return runs_filter(runs, str(filters.get("filter", "")))


class RunFilters(BaseModel):
    """Parameters of a list of runs."""

    q: str = Field("", max_length=200, description="Words in name, id, preset or tags.")
    state: State | None = None
    tag: str = Field("", max_length=60, description="A whole tag.")
    project: str = Field("", max_length=60, description="Slug of a project.")
    filter: str = Field("", max_length=2000, description="The filter language, e.g. eval/success > 0.8.")
    sort: str = Field("", max_length=LONGEST, description=f"{SORT_WORDS}; -NAME: descending.")
    columns: str = Field(
        "", max_length=2000, description="Columns to include for each run, e.g. run.seed,eval/success:max."
    )
    archived: bool = Field(False, description="Include archived runs.")

    def values(self) -> dict[str, object]:
        """Return the parameters that differ from their defaults."""
        return self.model_dump(exclude_defaults=True)


class TableFilters(RunFilters):
    """Parameters of the page of all runs."""

    group: Literal["", "family"] = ""

    @field_validator("sort")
    @classmethod
    def _sort(cls, sort: str) -> str:
        return sort if is_sort(sort) or sort.removeprefix("-") == "runs" else ""


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
    """Return the condition on a measure of a metric (webapp.metrics.names); runs without it do not match."""
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
