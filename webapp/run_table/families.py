"""Rows of the table of families: means over the runs of each, in the selected columns."""

import statistics
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf, isfinite
from typing import Any

from django.contrib.postgres.aggregates import ArrayAgg
from django.db.models import Avg, Count, F, FloatField, Max, Min, QuerySet, StdDev
from django.db.models.fields.json import KeyTextTransform
from django.db.models.functions import Cast

from webapp.metrics.headline import HEADLINE
from webapp.metrics.measures import MEASURES, is_metric, metric_read
from webapp.metrics.models import Series
from webapp.run_table.columns import Column, config_at
from webapp.run_table.sorting import is_sort, value_of, without
from webapp.runs.families import ASIDE
from webapp.runs.models import Run

FACTS = {"created": "until", "name": "name", "runs": "runs"}
"""Sort orders by what every row has, in addition to metrics and config fields."""


@dataclass(frozen=True)
class FamilyCell:
    """A family's value in a column: the value of a config field, or the distribution of a metric over its runs."""

    column: Column
    value: Any = None
    mean: float | None = None
    deviation: float | None = None
    """Of the sample; None for one run."""
    count: int = 0
    """Number of runs with a finite value."""


def families_rows(
    runs: QuerySet[Run], rows: Sequence[Mapping[str, Any]], columns: Sequence[Column]
) -> list[dict[str, Any]]:
    """Return the rows of `families_list` with "cells": one for each column that is a config field or a metric."""
    shown = [
        column for column in columns if column.kind in ("config", "metric") and column.word != "priority"
    ]
    runs = runs.filter(family__in=[row["family"] for row in rows]).order_by()
    values = _values(runs, shown)
    fields = any(column.kind == "config" for column in shown)
    configs = (
        dict(runs.distinct("family").order_by("family").values_list("family", "config")) if fields else {}
    )
    return [{**row, "cells": [_cell(row, column, values, configs) for column in shown]} for row in rows]


def _values(runs: QuerySet[Run], columns: Sequence[Column]) -> dict[tuple[str, str], list[float]]:
    """Return finite values by family and word, of the metrics that `families_list` does not contain."""
    values: dict[tuple[str, str], list[float]] = defaultdict(list)
    for column in columns:
        if column.kind == "metric" and column.word not in HEADLINE:
            key, measure = metric_read(column.word)
            series = Series.objects.filter(run__in=runs, key=key)
            for family, value in series.values_list("run__family", MEASURES[measure]):
                if value is not None and isfinite(value):
                    values[family, column.word].append(value)
    return values


def _cell(
    row: Mapping[str, Any],
    column: Column,
    values: Mapping[tuple[str, str], list[float]],
    configs: Mapping[str, Any],
) -> FamilyCell:
    if column.kind == "config":
        aside = column.word.removeprefix("run.") in ASIDE and row["runs"] > 1
        value = "differs" if aside else config_at(configs.get(row["family"]), column.word)
        return FamilyCell(column, value)
    if column.word in HEADLINE:
        name = alias_of(column.word)
        return FamilyCell(column, None, row[f"{name}_mean"], row[f"{name}_sd"], row[f"{name}_n"])
    some = values.get((row["family"], column.word), [])
    if not some:
        return FamilyCell(column)
    deviation = statistics.stdev(some) if len(some) > 1 else None
    return FamilyCell(column, None, statistics.fmean(some), deviation, len(some))


def families_list(runs: QuerySet[Run], sort: str = "") -> QuerySet[Any, Any]:
    """Return one row per family, newest first or by `sort` (name, runs, created, a metric's mean,
    or a config field): {"family", "runs", "name", "since", "until", and for each headline metric
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
    name = sort.removeprefix("-")
    order = FACTS.get(name, "until")
    if is_sort(sort) and (is_metric(name) or "." in name):
        runs, value = value_of(runs, name)
        order = "sorted"
        # A metric's mean over its runs; of a field that differs, the least value (Postgres has no minimum of JSON values).
        columns["sorted"] = (
            Avg(without(without(value, inf), -inf))
            if is_metric(name)
            else ArrayAgg(value, order_by=[value], default=None)
        )
    descending = sort.startswith("-") or (order == "until" and sort != "created")
    by = F(order).desc(nulls_last=True) if descending else F(order).asc(nulls_last=True)
    return (
        runs.order_by()
        .values("family")
        .annotate(
            runs=Count("pk"), name=Min("name"), since=Min("created_at"), until=Max("created_at"), **columns
        )
        .order_by(by, "-until", "family")
    )


def alias_of(key: str) -> str:
    """Return a headline metric's name as a column alias."""
    return key.replace("/", "_")
