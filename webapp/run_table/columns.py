"""The columns of the runs table: words of the filter language, each a fact, a config field or a metric."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import isfinite
from typing import Any

from training_core.errors import ConfigError
from webapp.agents.rewards import shaped_label
from webapp.metrics.arrays import spell
from webapp.metrics.headline import HEADLINE
from webapp.metrics.measures import MEASURES, is_metric, metric_read
from webapp.metrics.models import Series
from webapp.run_table.headlines import OWN, STANDARD, headline_names
from webapp.runs.models import Run, RunSource
from webapp.runs.notes import run_notes_latest

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
"""Facts with a row in docs/columns.md -> its anchor."""
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
    configs, foreign = [run.config for run in runs], all(run.source == RunSource.CLIENT for run in runs)
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
