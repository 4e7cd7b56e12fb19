"""Curves of groups of runs: mean and band over one axis, with the number of runs at every point."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from training_core.errors import ConfigError
from webapp.agents.rewards import shaped_label
from webapp.compare.alignment import (
    AlignedCurves,
    axis_of,
    band_of,
    counts_of,
    curves_on_axis,
    mean_of,
    smoothed,
)
from webapp.compare.forms import Choice
from webapp.compare.groups import RunGroup, best_groups, groups_make
from webapp.compare.lines import aligned_read
from webapp.compare.selection import MOST_RUNS, configs_of
from webapp.metrics.arrays import Floats
from webapp.runs.models import Run

FEW = 24
"""Minimum number of points of the axis for smoothing: fewer are drawn as they are."""
MOST_LINES = 60
"""Maximum number of lines of single runs in one chart."""
MOST_LISTED = 20
"""Maximum number of runs of a group that are listed if more than MOST_RUNS are compared."""
Rows = list[float | None]


def curves_read(runs: Sequence[Run], choice: Choice, key: str) -> dict[str, Any]:
    """Return {"key", "x", "axis", "spans", "groups": [{"group", "label", "tone", "runs", "n", "mean", "raw", "low", "high",
    "counts", "lines"}], "omitted": number of groups that are not drawn, "without": ids of runs without a point on this axis,
    "left_out": number of points that are not finite}.

    Every list of a group has the length of "axis"; null where there is no run (or, for a band, not enough runs). "raw" is
    the mean before smoothing; "runs" are the first MOST_LISTED of each group if there are more than MOST_RUNS. Of too many groups
    those of `best_groups` are drawn. Raises ConfigError for too many lines of single runs.
    """
    best = best_groups(runs, choice, key)
    aligned = aligned_read(best.runs, key, choice.x)
    having = {run for curves in aligned for run in curves.runs}
    drawn = [run for run in best.runs if run.pk in having]
    groups = groups_make(drawn, choice.by)
    if choice.band == "runs" and len(drawn) > MOST_LINES:
        raise ConfigError(
            {
                "band": f"{len(drawn)} lines; at most {MOST_LINES} are drawn: choose another band, or name fewer runs"
            }
        )
    axis, spans = axis_of(aligned)
    weight = choice.smooth if len(axis) >= FEW else 0.0
    table, places = _table(aligned, axis, spans)
    listed = len(runs) if len(runs) <= MOST_RUNS else MOST_LISTED
    return {
        "key": key,
        "label": shaped_label(key, configs_of(runs)),
        "x": choice.x,
        "axis": axis.tolist(),
        "spans": spans,
        "groups": [
            _group(group, table[[places[run.pk] for run in group.runs]], choice, weight, listed)
            for group in groups
        ],
        "omitted": best.omitted,
        "without": [run.pk for run in best.runs if run.pk not in having],
        "left_out": sum(sum(curves.left_out) for curves in aligned),
    }


def _table(aligned: Sequence[AlignedCurves], axis: Floats, spans: bool) -> tuple[Floats, dict[str, int]]:
    """Return the values of all lines (runs, axis), and the row of each run."""
    rows = [run for curves in aligned for run in curves.runs]
    parts = [curves_on_axis(curves, axis, spans) for curves in aligned]
    table = np.concatenate(parts) if parts else np.empty((0, len(axis)))
    return table, {run: row for row, run in enumerate(rows)}


def curve_rows(curves: Mapping[str, Any]) -> Iterator[list[Any]]:
    """Yield rows [group, axis value, mean, low, high, runs] of the result of `curves_read`, one per point."""
    missing = [None] * len(curves["axis"])
    for group in curves["groups"]:
        bounds = group["low"] or missing, group["high"] or missing
        for row in zip(curves["axis"], group["mean"], *bounds, group["counts"], strict=True):
            yield [group["label"], *row]


def _group(group: RunGroup, table: Floats, choice: Choice, weight: float, listed: int) -> dict[str, Any]:
    shown = smoothed(table, weight) if weight else table
    band = band_of(shown, choice.band)
    return {
        "group": group.key,
        "label": group.label,
        "tone": group.tone,
        "runs": [{"id": run.pk, "name": run.name} for run in group.runs[:listed]],
        "n": len(group.runs),
        "mean": _row(mean_of(shown)),
        "raw": _row(mean_of(table)) if weight else None,
        "low": _row(band.low) if band else None,
        "high": _row(band.high) if band else None,
        "counts": counts_of(table).tolist(),
        "lines": [_row(row) for row in shown] if choice.band == "runs" else None,
    }


def _row(values: Floats) -> Rows:
    finite = np.isfinite(values).tolist()
    return [value if there else None for value, there in zip(values.tolist(), finite, strict=True)]
