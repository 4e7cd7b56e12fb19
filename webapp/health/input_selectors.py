"""Collects the input of the rules: the latest points of some metrics, and liveness."""

from collections.abc import Iterable

import numpy as np
from django.db.models import F, Q, Sum, Window
from django.utils import timezone

from webapp.health.inputs import HealthInputs, SeriesTail, Vitals
from webapp.metrics.arrays import unpack_floats, unpack_ints
from webapp.metrics.models import Block, Chunk, Series
from webapp.metrics.points import GROUP, wide_read
from webapp.runs.models import Attempt, Run, RunState

LATEST = 500
"""Minimum number of points of a metric to read."""
WATCHED = (
    "train/success", "eval/success", "rollout/truncated", "rollout/staleness", "progress/tokens", "progress/episodes",
    "rollout/overlong", "eval/overlong", "eval_sampled/overlong",
)  # fmt: skip
HEARD = 30.0
"""Seconds since the last event within which a driver counts as alive."""


def health_inputs(run: Run) -> HealthInputs:
    """Return the current input of the rules, with a few database queries."""
    wanted = (
        Q(key__in=WATCHED)
        | Q(key__startswith="policy/")
        | Q(key__endswith="/too_easy")
        | Q(key__endswith="/too_hard")
    )
    names = dict(Series.objects.filter(wanted, run=run).values_list("id", "key"))
    return HealthInputs(_curves(names), _vitals(run), run.iteration)


def _curves(names: dict[int, str]) -> dict[str, SeriesTail]:
    """Read chunks from the newest on until there are LATEST points, and the blocks."""
    so_far = Window(Sum("count"), partition_by=F("series"), order_by=F("id").desc())
    rows = (
        Chunk.objects.filter(series_id__in=names)
        .annotate(so_far=so_far)
        .filter(so_far__lt=LATEST + F("count"))
        .order_by("id")
        .values_list("series_id", "attempt", "steps", "values")
    )
    parts: dict[str, list[tuple[int, SeriesTail]]] = {}
    for series, attempt, steps, values in rows:
        parts.setdefault(names[series], []).append(
            (attempt, SeriesTail(unpack_ints(steps), unpack_floats(values)))
        )
    wide, _ = wide_read(Block.objects.filter(group__in={pk // GROUP for pk in names}), 0, None, names)
    for pk, points in (wide.by_series() if wide else {}).items():
        for attempt, some in points.by_attempt().items():
            parts.setdefault(names[pk], []).append((attempt, SeriesTail(some.steps, some.values)))
    return {key: _joined(pieces) for key, pieces in parts.items()}


def _joined(pieces: Iterable[tuple[int, SeriesTail]]) -> SeriesTail:
    """Join points by step; where attempts overlap, the newest attempt takes precedence."""
    ordered = sorted(pieces, key=lambda piece: piece[0])
    steps = np.concatenate([curve.steps for _, curve in ordered])
    values = np.concatenate([curve.values for _, curve in ordered])
    order = np.argsort(steps, kind="stable")
    steps, values = steps[order], values[order]
    last = np.append(steps[1:] != steps[:-1], True)
    return SeriesTail(steps[last], values[last])


def _vitals(run: Run) -> Vitals:
    attempts = list(run.attempts.order_by("number"))
    lost = [attempt for attempt in attempts if attempt.ended_as in ("failed", "lost")]
    deaths = tuple(attempt.number for attempt in lost)
    reasons = {attempt.number: attempt.reason for attempt in lost}
    if not attempts or run.state != RunState.RUNNING or attempts[-1].state != Attempt.State.LIVE:
        return Vitals(lost=deaths, reasons=reasons)
    now = timezone.now()
    heard = attempts[-1].heartbeat_at or attempts[-1].created_at
    silent = (now - heard).total_seconds()
    latest = Series.objects.filter(run=run, key__startswith="train/").order_by("-last_time").first()
    begun = (attempts[-1].started_at or attempts[-1].created_at).timestamp()
    since = max(begun, latest.last_time if latest else 0.0)
    usual = (latest.last_time - begun) / max(latest.count, 1) if latest and latest.last_time > begun else None
    idle = max(0.0, now.timestamp() - since) if silent < HEARD else None
    return Vitals(silent, idle, usual, deaths, reasons)
