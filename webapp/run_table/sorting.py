"""The order of the runs table."""

from math import nan
from typing import Any

from django.db.models import F, FilteredRelation, FloatField, Q, QuerySet, Value
from django.db.models.fields.json import KeyTextTransform, KeyTransform
from django.db.models.functions import Cast, NullIf

from webapp.metrics.headline import HEADLINE
from webapp.metrics.measures import MEASURES, is_metric, metric_read
from webapp.runs.models import Run

COLUMNS = {
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
SORTS = (*COLUMNS, *HEADLINE)
"""Sort orders of runs, in addition to any metric and any config field; a minus prefix means descending."""
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
    runs, expression = (runs, F(COLUMNS[name])) if name in COLUMNS else value_of(runs, name)
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
