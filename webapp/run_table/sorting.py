"""The order of the runs table."""

from typing import Any

from django.db.models import F, FilteredRelation, FloatField, Q, QuerySet, Value
from django.db.models.fields.json import KeyTextTransform, KeyTransform
from django.db.models.functions import Cast, NullIf

from webapp.metrics.headline import HEADLINE
from webapp.metrics.measures import MEASURES, metric_read
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
    return name in SORTS or (0 < len(name) < LONGEST and "\0" not in name and ("/" in name or "." in name))


def runs_sort(runs: QuerySet[Run], wanted: str) -> QuerySet[Run]:
    """Sort runs, with the newest first among equals; runs without a value, or with NaN, are last."""
    name = wanted.removeprefix("-")
    if not is_sort(wanted):
        return runs.order_by("-created_at", "-pk")
    if name in COLUMNS:
        expression: Any = F(COLUMNS[name])
    elif name in HEADLINE:
        expression = _number(Cast(KeyTextTransform(name, "headline"), FloatField()))
    elif "/" in name:
        key, measure = metric_read(name)
        runs = runs.alias(sorted_series=FilteredRelation("series", condition=Q(series__key=key)))
        expression = _number(F(f"sorted_series__{MEASURES[measure]}"))
    else:
        expression = F("config")
        for part in name.split("."):
            expression = KeyTransform(part, expression)
    ordered = expression.desc(nulls_last=True) if wanted.startswith("-") else expression.asc(nulls_last=True)
    return runs.order_by(ordered, "-created_at", "-pk")


def _number(expression: Any) -> Any:
    """Replace NaN with null."""
    return NullIf(expression, Value(float("nan"), output_field=FloatField()))
