"""The metrics that the runs of a table show: those of Troupe's trainers, or those that custom programs log."""

from collections import Counter
from collections.abc import Collection, Iterable, Sequence

from webapp.metrics.expressions import is_plain
from webapp.metrics.importance import by_importance
from webapp.metrics.measures import metric_word
from webapp.metrics.models import Series
from webapp.runs.models import Run, RunSource

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
    return run.source == RunSource.CLIENT and bool(run.headline_keys or not run.headline)


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
