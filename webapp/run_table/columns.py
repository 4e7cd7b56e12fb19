"""The columns of the runs table: words of the filter language, each a fact, a config field or a metric; and their values, of runs and
of families of runs. The default columns are metrics of Troupe's trainers, or those that custom programs log.
"""

import statistics
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf, isfinite
from typing import Any

from django.contrib.postgres.aggregates import ArrayAgg
from django.db.models import Avg, Count, F, FloatField, Max, Min, QuerySet, StdDev
from django.db.models.fields.json import KeyTextTransform
from django.db.models.functions import Cast

from training_core.errors import ConfigError
from webapp.agents.rewards import shaped_label
from webapp.metrics.arrays import spell
from webapp.metrics.expressions import is_plain
from webapp.metrics.headline import HEADLINE
from webapp.metrics.models import Series
from webapp.metrics.names import MEASURES, by_importance, is_metric, metric_read, metric_word
from webapp.run_table.filters import is_sort, value_of, without
from webapp.runs.configs import ASIDE
from webapp.runs.models import Run
from webapp.runs.notes import run_notes_latest

STANDARD = ("progress", "left", "eval/success", "eval_sampled/success", "train/return", "created")
"""Default columns of runs of Troupe's trainers, in addition to name and state."""
BESIDE_CHARTS = ("eval/success",)
"""Default columns of their table with charts next to it."""
MIXED = ("progress", "left", "eval/success", "train/return", "headline", "created")
"""Default columns of a table with runs of Troupe's trainers and of custom programs."""
OWN = "headline"
"""The column with the first headline metric of each custom program."""
MOST_SHARED = 3
"""Number of columns for metrics that most programs of a table log."""
MOST_NAMES = 500
"""Number of metrics up to which the names of a run are read; a run with more shows those that it has chosen."""


def is_program(run: Run) -> bool:
    """Whether a run has headline metrics of its own: a custom program that has chosen some, or logs none of Troupe's."""
    return run.is_custom and bool(run.headline_keys or not run.headline)


def headline_names(runs: Iterable[Run]) -> dict[str, list[str]]:
    """Return the headline metrics of each custom program, the most important first. Makes at most one query."""
    programs = [run for run in runs if is_program(run)]
    read = [run.pk for run in programs if run.series_count <= MOST_NAMES]
    reported: dict[str, list[str]] = {pk: [] for pk in read}
    if read:
        series = Series.objects.filter(run__in=read).order_by("pk")  # in the order of the first values
        for pk, key in series.values_list("run_id", "key"):
            reported[pk].append(key)
    names = {}
    for run in programs:
        keys = reported.get(run.pk, run.headline_keys)
        names[run.pk] = [key for key in run.headline_keys if key in keys] or by_importance(keys)
    return names


def columns_default(runs: Sequence[Run], *, beside_charts: bool = False) -> tuple[str, ...]:
    """Return the default columns of a table of these runs.

    Custom programs have columns of the metrics that most of them have among their first ones, and a column with a metric of each
    program's own if one of them has none of these.
    """
    names = headline_names(runs)
    if not names:
        return BESIDE_CHARTS if beside_charts else STANDARD
    if len(names) < len(runs):
        return (*BESIDE_CHARTS, OWN) if beside_charts else MIXED
    shared = _shared(names.values())
    lone = any(keys and not set(shared) & set(keys) for keys in names.values())
    own = [OWN] if lone or not shared else []
    if beside_charts:
        return tuple(own or map(metric_word, shared[:1]))
    return ("progress", "left", *map(metric_word, shared), *own, "created")


def metric_compared(runs: Sequence[Run]) -> str:
    """Return the metric that most of these custom programs have among their first ones; empty if another run is among them."""
    names = headline_names(runs)
    counts = Counter(key for keys in names.values() for key in filter(is_plain, keys[:MOST_SHARED]))
    return counts.most_common(1)[0][0] if counts and len(names) == len(runs) else ""


def _shared(names: Collection[Sequence[str]]) -> list[str]:
    """Return the metrics that more than half of these lists have among their first ones, the most common first."""
    counts = Counter(key for keys in names for key in keys[:MOST_SHARED])
    return [key for key, count in counts.most_common(MOST_SHARED) if 2 * count > len(names)]


MOST = 20
LONGEST = 2000
FACTS: dict[str, tuple[str, str, str]] = {
    "progress": ("progress", "progress", "-iteration"),
    "left": ("left", "left", ""),
    "created": ("moment", "launched", "-created"),
    "started": ("moment", "started", "-started"),
    "ended": ("moment", "ended", "-ended"),
    "owner": ("text", "owner", "owner"),
    "project": ("text", "project", "project"),
    "preset": ("text", "preset", "preset"),
    "priority": ("config", "priority", "-priority"),
    "note": ("text", "latest note", ""),
    OWN: ("own", "headline", ""),
}
"""Kind, heading and order of each column that is a fact of the run."""
EXPLAINED = {"progress": "progress", "left": "left", "priority": "priority", "note": "latest-note", OWN: OWN}
"""Facts with a row in docs/reference/columns.md -> its anchor."""
_HEADINGS = {
    "train/return": "return",
    "eval/return": "return, greedy",
    "eval/success": "success, greedy",
    "eval_sampled/success": "sampled",
}
_PLACES = {"left": "eta_seconds", "created": "created_at", "started": "started_at", "ended": "ended_at"}
"""Facts with a different name in `run_summary`."""


@dataclass(frozen=True)
class Column:
    """One column. kind: progress, left, moment, text, config, metric, or own: the first headline metric of each run."""

    word: str
    kind: str
    heading: str
    sort: str = ""
    """The sort key of its heading; empty if it cannot be sorted."""
    foreign: bool = False
    """Whether custom programs have named the metric: an equal name need not have the meaning of Troupe's."""

    @property
    def explained(self) -> tuple[str, str]:
        """Return kind and name of its explanation (webapp/documents/views.py); empty if its heading is clear."""
        if self.kind == "metric" and self.foreign:
            return "", ""
        if self.kind == "metric":
            return "metric", metric_read(self.word)[0]
        return ("column", f"runs--{EXPLAINED[self.word]}") if self.word in EXPLAINED else ("", "")

    @property
    def more_is_better(self) -> bool:
        """Whether larger values are better."""
        return self.kind == "metric" and metric_read(self.word)[0] in HEADLINE

    @property
    def style(self) -> str:
        """The CSS class: numbers and times are right-aligned."""
        return "" if self.kind in ("progress", "text") else "num"


@dataclass(frozen=True)
class Cell:
    """A run's value in a column; JSON types only. A column of the kind own has {"metric", "value"}, or None."""

    column: Column
    value: Any
    change: float | None = None
    """For a metric: the change from its first value."""
    tone: str = ""
    """good or bad, if larger values are known to be better."""


def columns_of_runs(columns: Iterable[Column], runs: Iterable[Run]) -> list[Column]:
    """Return columns with the headings for these runs: a return with shaped rewards is labelled as such."""
    runs = list(runs)
    configs, foreign = [run.config for run in runs], all(run.is_custom for run in runs)
    return [
        replace(column, heading=shaped_label(column.heading, configs), foreign=foreign)
        if column.kind == "metric"
        else column
        for column in columns
    ]


def columns_read(text: str, default: Sequence[str] = STANDARD) -> list[Column]:
    """Parse comma-separated columns; `default` if empty. Raises ConfigError."""
    words = list(dict.fromkeys(word.strip() for word in text.split(",") if word.strip())) or list(default)
    if len(words) > MOST or len(text) > LONGEST or "\0" in text:
        raise ConfigError({"columns": f"choose at most {MOST} columns, of {LONGEST} characters in total"})
    return [_column(word) for word in words]


def _column(word: str) -> Column:
    if word in FACTS:
        kind, heading, sort = FACTS[word]
        return Column(word, kind, heading, sort)
    if is_metric(word):
        key, measure = metric_read(word)
        heading = _HEADINGS.get(key, key) + ("" if measure == "last" else f", {measure}")
        return Column(word, "metric", heading, f"-{word}")
    if "." in word:
        return Column(word, "config", word, word)
    raise ConfigError(
        {
            "columns": f"{word[:40]!r} is not a column: use {', '.join(FACTS)}, "
            "a config field (run.seed) or a metric (eval/success:max, metric.loss)"
        }
    )


def rows_cells(
    runs: Sequence[Run], summaries: Iterable[Mapping[str, Any]], columns: Sequence[Column]
) -> list[list[Cell]]:
    """Return the cells of each run, in the order of the columns. summaries: `run_summary` of each."""
    firsts: dict[str, str] = {}
    if any(column.kind == "own" for column in columns):
        firsts = {pk: keys[0] for pk, keys in headline_names(runs).items() if keys}
    series = _series_of(runs, columns, firsts.values())
    if any(column.word == "note" for column in columns):
        notes = run_notes_latest(runs)
        texts = {run.pk: notes[run.pk].text if run.pk in notes else "" for run in runs}
        summaries = [{**summary, "note": texts[summary["id"]]} for summary in summaries]
    return [
        [
            _own_cell(run, column, firsts.get(run.pk), series)
            if column.kind == "own"
            else _cell(run, summary, column, series)
            for column in columns
        ]
        for run, summary in zip(runs, summaries, strict=True)
    ]


def cells_json(cells: Iterable[Cell]) -> dict[str, dict[str, Any]]:
    """Return JSON for the API: {"columns": {word: value}, "changes": {metric: change}}."""
    cells = list(cells)
    return {
        "columns": {cell.column.word: cell.value for cell in cells},
        "changes": {cell.column.word: cell.change for cell in cells if cell.column.kind in ("metric", "own")},
    }


def config_at(config: Any, path: str) -> Any:
    """Return the value at a dotted path; None if it is missing."""
    for name in path.split("."):
        config = config.get(name) if isinstance(config, Mapping) else None
    return config


def _series_of(
    runs: Sequence[Run], columns: Iterable[Column], also: Iterable[str]
) -> dict[tuple[str, str], Series]:
    """Return by run and key the series of metrics that are not in the headline, and those of the metrics `also`."""
    metrics = [column.word for column in columns if column.kind == "metric" and column.word not in HEADLINE]
    keys = {metric_read(word)[0] for word in metrics} | set(also)
    if not keys:
        return {}
    return {(row.run_id, row.key): row for row in Series.objects.filter(run__in=runs, key__in=keys)}


def _cell(
    run: Run, summary: Mapping[str, Any], column: Column, series: Mapping[tuple[str, str], Series]
) -> Cell:
    if column.kind == "metric":
        return _metric_cell(run, column, series)
    if column.word in FACTS:
        return Cell(column, summary[_PLACES.get(column.word, column.word)])
    return Cell(column, config_at(run.config, column.word))


def _own_cell(run: Run, column: Column, key: str | None, series: Mapping[tuple[str, str], Series]) -> Cell:
    row = series.get((run.pk, key)) if key else None
    if row is None:
        return Cell(column, None)
    value: Any = spell(row.last_value)
    first: Any = row.first_value
    change = value - first if _finite(value) and _finite(first) else None
    return Cell(column, {"metric": key, "value": value}, change)


def _metric_cell(run: Run, column: Column, series: Mapping[tuple[str, str], Series]) -> Cell:
    key, measure = metric_read(column.word)
    if column.word in HEADLINE:
        value, first = run.headline.get(key), run.headline.get("first", {}).get(key)
    else:
        row = series.get((run.pk, key))
        measured = getattr(row, MEASURES[measure]) if row else None
        value, first = None if measured is None else spell(measured), row and row.first_value
    if measure == "first" or not _finite(value) or not _finite(first):
        return Cell(column, value)
    change = value - first
    coloured = column.more_is_better and change != 0
    return Cell(column, value, change, ("good" if change > 0 else "bad") if coloured else "")


def _finite(value: Any) -> bool:
    return isinstance(value, int | float) and isfinite(value)


FAMILY_SORTS = {"created": "until", "name": "name", "runs": "runs"}
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
    values = _family_values(runs, shown)
    fields = any(column.kind == "config" for column in shown)
    configs = (
        dict(runs.distinct("family").order_by("family").values_list("family", "config")) if fields else {}
    )
    return [
        {**row, "cells": [_family_cell(row, column, values, configs) for column in shown]} for row in rows
    ]


def _family_values(runs: QuerySet[Run], columns: Sequence[Column]) -> dict[tuple[str, str], list[float]]:
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


def _family_cell(
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
    order = FAMILY_SORTS.get(name, "until")
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
