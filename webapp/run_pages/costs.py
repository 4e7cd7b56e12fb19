"""The cost of a run so far, and its estimated total: time, device hours, tokens. Devices and the time that is left: webapp.runs.costs."""

from collections.abc import Iterable
from datetime import datetime

import numpy as np
from django.utils import timezone

from training_core.config.files import parse_config
from training_core.errors import ConfigError
from troupe_client.documents.runs import AttemptCost, RunCost
from webapp.metrics.points import Points
from webapp.metrics.selectors import SeriesRow, points_read
from webapp.runs.costs import eta_seconds
from webapp.runs.models import Attempt, Run
from webapp.runs.selectors import attempts_of
from workers.sizing.placement import Demand, demand

TOKENS = "progress/tokens"
HOUR = 3600.0


def run_cost(run: Run, rows: Iterable[SeriesRow] | None = None) -> RunCost:
    """Compute the cost of a run. rows: those of all its metrics, if the page has read them."""
    attempts = attempts_of(run)
    held, before = _held(run), _before(run)
    shared_by = attempts[-1].shared_by if attempts else 1
    gpus, cpus = (held.gpus / shared_by, held.cpus / shared_by) if held else (None, None)
    counted = _counted(run, rows)
    # The count of a single attempt is that of its last step: a long series is not read for it.
    tokens = (
        tokens_by_attempt(points_read(run, TOKENS), before)
        if len(attempts) > 1
        else {attempt.number: counted - before for attempt in attempts if counted}
    )
    seconds = {attempt.number: _seconds(attempt) for attempt in attempts}
    total = sum(seconds.values())
    counted_seconds = sum(seconds[one.number] * shared_by / one.shared_by for one in attempts)
    left = eta_seconds(run, attempts[-1] if attempts else None)
    sampled = sum(tokens.values())
    return RunCost(
        waited=_waited(run),
        seconds=total,
        gpus=gpus,
        cpus=cpus,
        shared_by=shared_by,
        shift=counted_seconds - total,
        gpu_hours=_hours(gpus, counted_seconds),
        cpu_hours=_hours(cpus, counted_seconds),
        tokens=sampled,
        tokens_again=max(0, sampled - (counted - before)) if sampled else 0,
        eta_seconds=left,
        expected_gpu_hours=None if left is None else _hours(gpus, counted_seconds + left),
        expected_cpu_hours=None if left is None else _hours(cpus, counted_seconds + left),
        attempts=[
            AttemptCost(number=number, seconds=spent, tokens=tokens.get(number, 0))
            for number, spent in seconds.items()
        ],
    )


def tokens_by_attempt(points: Points, before: int = 0) -> dict[int, int]:
    """Return the tokens of each attempt: its last count minus the count at its start, which its checkpoint contains.

    before: count at the start of the first attempt.
    """
    return {
        int(attempt): int(points.values[points.attempts == attempt].max() - _base(points, attempt, before))
        for attempt in np.unique(points.attempts)
    }


def _base(points: Points, attempt: int, before: int) -> float:
    """Return the count of the previous attempts, at the last step before this one's first."""
    first = points.steps[points.attempts == attempt].min()
    indices = np.flatnonzero((points.attempts < attempt) & (points.steps < first))
    return float(points.values[indices[-1]]) if len(indices) else before


def _before(run: Run) -> int:
    """Return the initial count of a fork: its parent's at the checkpoint; 0 if the parent was deleted."""
    if run.parent is None:
        return 0
    points = points_read(run.parent, TOKENS)
    indices = np.flatnonzero(points.steps <= run.parent_iteration)
    return int(points.values[indices[-1]]) if len(indices) else 0


def _counted(run: Run, rows: Iterable[SeriesRow] | None) -> int:
    """Return the run's own count: tokens up to its current iteration."""
    if rows is not None:
        return next((int(row.last_value) for row in rows if row.key == TOKENS), 0)
    series = run.series.filter(key=TOKENS).first()
    return int(series.last_value) if series else 0


def _held(run: Run) -> Demand | None:
    if run.is_custom:
        return None
    try:
        return demand(parse_config(run.config))
    except ConfigError:
        return None  # a config of another version: its demand is unknown


def _hours(devices: float | None, seconds: float) -> float | None:
    return None if devices is None else devices * seconds / HOUR


def _waited(run: Run) -> float:
    end: datetime = run.started_at or run.ended_at or timezone.now()
    return max(0.0, (end - run.created_at).total_seconds())


def _seconds(attempt: Attempt) -> float:
    """Return the seconds from start to end; for an active attempt, until its last report."""
    end = attempt.ended_at or attempt.heartbeat_at
    return max(0.0, (end - attempt.started_at).total_seconds()) if attempt.started_at and end else 0.0
