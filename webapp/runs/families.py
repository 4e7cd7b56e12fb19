"""Runs that differ by their seed alone: one family."""

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from django.db.models import Avg, Count, FloatField, Max, Min, QuerySet, StdDev
from django.db.models.fields.json import KeyTextTransform
from django.db.models.functions import Cast

from webapp.metrics.headline import HEADLINE
from webapp.runs.models import Run

ASIDE = ("seed", "name", "description", "tags")
"""Fields below `run` that do not make another experiment of it."""


def family_of(config: Mapping[str, Any]) -> str:
    """The same for configs that are equal but for ASIDE; 16 hexadecimal digits."""
    said = config.get("run")
    run = (
        {key: value for key, value in said.items() if key not in ASIDE} if isinstance(said, Mapping) else said
    )
    text = json.dumps({**config, "run": run}, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def families_list(found: QuerySet[Run]) -> QuerySet[Any, Any]:
    """One row per family, the newest first: {"family", "runs", "name", "since", "until", and for each headline metric
    "<key> n", "<key> mean", "<key> sd" (of the sample; null for one run)}.
    """
    columns: dict[str, Any] = {}
    for key in HEADLINE:
        value = Cast(KeyTextTransform(key, "headline"), FloatField())
        columns |= {
            f"{alias_of(key)}_n": Count(value),
            f"{alias_of(key)}_mean": Avg(value),
            f"{alias_of(key)}_sd": StdDev(value, sample=True),
        }
    return (
        found.order_by()
        .values("family")
        .annotate(
            runs=Count("pk"), name=Min("name"), since=Min("created_at"), until=Max("created_at"), **columns
        )
        .order_by("-until", "family")
    )


def alias_of(key: str) -> str:
    """A headline metric's name as a column's."""
    return key.replace("/", "_")
