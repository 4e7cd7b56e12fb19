"""The order of the runs table."""

from typing import Any

from django.db.models import F, FloatField, QuerySet
from django.db.models.fields.json import KeyTextTransform
from django.db.models.functions import Cast

from webapp.metrics.headline import HEADLINE
from webapp.runs.models import Run

COLUMNS = {
    "created": "created_at",
    "ended": "ended_at",
    "name": "name",
    "state": "state",
    "iteration": "iteration",
    "priority": "priority",
    "owner": "owner__username",
}
SORTS = (*COLUMNS, *HEADLINE)
"""What runs can be ordered by; with a minus before it, the greatest first."""


def runs_sort(found: QuerySet[Run], wanted: str) -> QuerySet[Run]:
    """In the order of a word of SORTS, the newest first among equals; runs without a value come last."""
    name = wanted.removeprefix("-")
    if name not in SORTS:
        return found.order_by("-created_at", "-pk")
    place: Any = (
        F(COLUMNS[name]) if name in COLUMNS else Cast(KeyTextTransform(name, "headline"), FloatField())
    )
    ordered = place.desc(nulls_last=True) if wanted.startswith("-") else place.asc(nulls_last=True)
    return found.order_by(ordered, "-created_at", "-pk")
