"""The metrics of a run in a table of runs: the last values of a few metrics, and one sparkline.

`Run.headline` = {"eval/success": 0.91, ..., "first": {"eval/success": 0.2, ...}, "spark": {"key", "stride", "values",
"counts"}}. Bucket i of the curve is
the mean of the finite values of steps [i * stride, (i + 1) * stride); the stride doubles when the buckets are full, so
that a run of any length has at most BUCKETS of them. A bucket without a value is null.
"""

from collections.abc import Iterable, Mapping
from math import isfinite
from typing import Any

from webapp.metrics.arrays import spell
from webapp.metrics.points import Points
from webapp.runs.models import Run

HEADLINE = ("eval/success", "eval_sampled/success", "train/return", "eval/return")
OUTCOMES = ("eval/success", "eval/return")
"""Metrics of a run's outcome, in order of preference: some environments have no success."""
SPARK = "train/return"
BUCKETS = 40


def outcome_key(headlines: Iterable[Mapping[str, Any]]) -> str:
    """Return the default metric for comparing runs: the success, unless all of them have only the return."""
    reported = {key for headline in headlines for key in headline}
    return next((key for key in OUTCOMES if key in reported), OUTCOMES[0])


def headline_update(run: Run, news: Mapping[str, tuple[Points, float, float | None]]) -> None:
    """Update the run's headline with new points. news: those of each of its metrics with some, and the last value and the first finite
    one of the series.
    """
    if not news:
        return
    headline = {**run.headline, **{key: spell(last) for key, (_, last, _) in news.items()}}
    firsts = {key: first for key, (*_, first) in news.items() if first is not None}
    headline["first"] = {**run.headline.get("first", {}), **firsts}
    if SPARK in news:
        headline["spark"] = spark_add(headline.get("spark"), news[SPARK][0])
    run.headline = headline
    run.save(update_fields=["headline"])


def spark_add(spark: dict[str, Any] | None, points: Points) -> dict[str, Any]:
    """Add points to the sparkline; negative steps are ignored."""
    stride = spark["stride"] if spark else 1
    means: list[float | None] = list(spark["values"]) if spark else []
    counts: list[int] = list(spark["counts"]) if spark else []
    for step, value in zip(points.steps.tolist(), points.values.tolist(), strict=True):
        if step < 0:
            continue
        while step // stride >= BUCKETS:
            stride, means, counts = stride * 2, *_halved(means, counts)
        while len(means) <= step // stride:
            means.append(None)
            counts.append(0)
        if isfinite(value):
            _put(means, counts, step // stride, value)
    return {"key": SPARK, "stride": stride, "values": means, "counts": counts}


def _put(means: list[float | None], counts: list[int], index: int, value: float) -> None:
    counts[index] += 1
    mean = means[index] or 0.0
    means[index] = mean + (value - mean) / counts[index]


def _halved(means: list[float | None], counts: list[int]) -> tuple[list[float | None], list[int]]:
    """Merge neighbouring buckets, weighted by their counts."""
    merged: list[float | None] = []
    totals: list[int] = []
    for index in range(0, len(means), 2):
        pair = [
            (mean, count)
            for mean, count in zip(means[index : index + 2], counts[index : index + 2], strict=True)
        ]
        total = sum(count for _, count in pair)
        totals.append(total)
        merged.append(sum((mean or 0.0) * count for mean, count in pair) / total if total else None)
    return merged, totals
