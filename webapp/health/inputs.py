"""Input and output of the rules: the latest points of some metrics, and liveness."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from math import inf
from typing import Any

import numpy as np
from django.db.models import F, Q, Sum, Window
from django.utils import timezone

from webapp.metrics.arrays import Floats, Ints, unpack_floats, unpack_ints
from webapp.metrics.models import Chunk, Series
from webapp.metrics.points import blocks_read
from webapp.runs.models import Attempt, Run, RunState
from webapp.runs.selectors import lost_events

LATEST = 500
"""Minimum number of points of a metric to read."""
WATCHED = (
    "train/success", "eval/success", "rollout/truncated", "rollout/staleness", "progress/tokens", "progress/episodes",
    "rollout/overlong", "rollout/failed", "rollout/agent_errors", "train/return", "eval/overlong", "eval_sampled/overlong",
)  # fmt: skip
STEPS_AT_ONCE = 20
"""Number of steps since the last check that a check judges, evenly spaced; fast runs have more."""
ERRORS = 100
"""Number of failed episodes whose errors are compared."""
HEARD = 30.0
"""Seconds since the last event within which a driver counts as alive."""
Figures = dict[str, float | str]


@dataclass(frozen=True)
class SeriesTail:
    """The latest points of a metric, by step."""

    steps: Ints
    values: Floats

    def finite(self) -> "SeriesTail":
        """Return the series without NaN and infinities."""
        mask = np.isfinite(self.values)
        return SeriesTail(self.steps[mask], self.values[mask])

    def tail(self, count: int) -> "SeriesTail":
        """Return the last points."""
        return SeriesTail(self.steps[-count:], self.values[-count:])

    def until(self, step: int) -> "SeriesTail":
        """Return the points up to a step, which is included."""
        count = int(np.searchsorted(self.steps, step, side="right"))
        return SeriesTail(self.steps[:count], self.values[:count])

    def __len__(self) -> int:
        return len(self.steps)


@dataclass(frozen=True)
class Vitals:
    """Liveness of an active run; in seconds. None: not applicable."""

    silent: float | None = None
    """Since the last event of its driver."""
    idle: float | None = None
    """Since its last metrics, while its driver is alive."""
    usual: float | None = None
    """Median time between metrics."""
    lost: tuple[int, ...] = ()
    """Attempts that died."""
    reasons: Mapping[int, str] = field(default_factory=dict)
    """Reasons, by attempt."""
    lost_events: int = 0
    """Events that are lost on a full disk."""


@dataclass(frozen=True)
class HealthInputs:
    """The complete input of a rule."""

    curves: Mapping[str, SeriesTail]
    vitals: Vitals = Vitals()
    step: int = 0
    """Iterations completed."""
    evaluated: int = 256
    """Episodes of an evaluation."""
    errors: Mapping[str, str] = field(default_factory=dict)
    """The commonest errors of the latest training episodes, by the metric that counts these episodes."""

    @property
    def played(self) -> int:
        """Training episodes of an iteration; at least 1."""
        episodes = self.one("progress/episodes").values
        return max(int(np.median(np.diff(episodes))), 1) if len(episodes) > 1 else 1

    @property
    def latest(self) -> int:
        """Last step of any metric; -1 if there is none."""
        return max((int(curve.steps[-1]) for curve in self.curves.values() if len(curve)), default=-1)

    def since(self, step: int) -> list["HealthInputs"]:
        """Return the input as it was at each later step, so that findings do not depend on the times of checks; itself if there is none."""
        steps = np.unique(
            np.concatenate([np.empty(0, np.int64), *(curve.steps for curve in self.curves.values())])
        )
        new = steps[steps > step]
        if len(new) > STEPS_AT_ONCE:
            new = new[np.linspace(0, len(new) - 1, STEPS_AT_ONCE).astype(int)]
        return [self._until(int(moment)) for moment in new[:-1]] + [self]

    def _until(self, step: int) -> "HealthInputs":
        return replace(self, curves={key: curve.until(step) for key, curve in self.curves.items()})

    def each(self, prefix: str, name: str) -> Iterator[tuple[str, str, SeriesTail]]:
        """Yield (key, policy or role, finite points) of every `prefix/<owner>/name`."""
        for key in sorted(self.curves):
            start, _, rest = key.partition("/")
            whose, _, last = rest.rpartition("/")
            if start == prefix and last == name and whose:
                yield key, whose, self.curves[key].finite()

    def one(self, key: str) -> SeriesTail:
        """Return the finite points of a key; empty if there are none."""
        curve = self.curves.get(key)
        return curve.finite() if curve else SeriesTail(np.empty(0, np.int64), np.empty(0))


@dataclass(frozen=True)
class Found:
    """A measurement of a rule: a problem if `excess` is above 1."""

    key: str
    """The subject: a metric, or an attempt. A rule has one open finding per key."""
    title: str
    first: int
    last: int
    """First and last step of the problem."""
    figures: Figures
    series: tuple[str, ...]
    """Metrics that show it; none for liveness."""
    value: float = 0.0
    """What is measured."""
    bound: float = 0.0
    """The threshold of `value`; of several conditions, that of the first."""
    excess: float = inf
    """Value divided by bound, or the smallest such ratio of several conditions: the rule fires above 1."""
    critical_at: float = inf
    """Excess above which the finding is critical; below, it is a warning."""
    note: str = ""
    """Why the value does not count."""
    below: bool = False
    """Whether the rule fires below the bound."""

    def unless(self, note: str) -> "Found":
        """Return the measurement, which does not count if there is a note why."""
        return replace(self, excess=0.0, note=note) if note else self

    def evidence(self) -> dict[str, Any]:
        """Return JSON; figures as pairs, because the database does not preserve the order of an object's keys."""
        return {"figures": list(self.figures.items()), "series": list(self.series)}


def health_inputs(run: Run) -> HealthInputs:
    """Return the current input of the rules, with a few database queries."""
    wanted = (
        Q(key__in=WATCHED)
        | Q(key__startswith="policy/")
        | Q(key__startswith="groups/")
        | Q(key__startswith="rollout/", key__endswith="/truncated")
    )
    names = dict(Series.objects.filter(wanted, run=run).values_list("id", "key"))
    curves = _curves(run, names)
    errors = {
        metric: _commonest_error(run, failed=failed)
        for metric, failed in (("rollout/failed", True), ("rollout/agent_errors", False))
        if metric in curves and curves[metric].values.any()
    }
    evaluated = run.config.get("evaluation", {}).get("episodes", HealthInputs.evaluated)
    return HealthInputs(curves, _vitals(run), run.iteration, evaluated, errors)


def _commonest_error(run: Run, *, failed: bool) -> str:
    """Return the first line of the error that most of the latest training episodes with one have."""
    episodes = run.episodes.filter(kind="train", failed=failed).exclude(error="")
    rows = episodes.order_by("-id").values_list("error", flat=True)
    lines = Counter(text.strip().partition("\n")[0][:200] for text in rows[:ERRORS])
    return lines.most_common(1)[0][0] if lines else ""


def _curves(run: Run, names: dict[int, str]) -> dict[str, SeriesTail]:
    """Read the blocks, and chunks from the newest on until there are LATEST points."""
    recent = blocks_read([run.pk], names)
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
    for pk, points in recent.items():
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
    gone = lost_events(run)
    if not attempts or run.state != RunState.RUNNING or attempts[-1].state != Attempt.State.LIVE:
        return Vitals(lost=deaths, reasons=reasons, lost_events=gone)
    now = timezone.now()
    heard = attempts[-1].heartbeat_at or attempts[-1].created_at
    silent = (now - heard).total_seconds()
    latest = Series.objects.filter(run=run, key__startswith="train/").order_by("-last_time").first()
    begun = (attempts[-1].started_at or attempts[-1].created_at).timestamp()
    since = max(begun, latest.last_time if latest else 0.0)
    usual = (latest.last_time - begun) / max(latest.count, 1) if latest and latest.last_time > begun else None
    idle = max(0.0, now.timestamp() - since) if silent < HEARD else None
    return Vitals(silent, idle, usual, deaths, reasons, gone)
