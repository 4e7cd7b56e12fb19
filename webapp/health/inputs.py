"""Input and output of health rules."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from math import inf
from typing import Any

import numpy as np

from webapp.metrics.arrays import Floats, Ints

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


@dataclass(frozen=True)
class HealthInputs:
    """The complete input of a rule."""

    curves: Mapping[str, SeriesTail]
    vitals: Vitals = Vitals()
    step: int = 0
    """Iterations completed."""

    @property
    def latest(self) -> int:
        """Last step of any metric; -1 if there is none."""
        return max((int(curve.steps[-1]) for curve in self.curves.values() if len(curve)), default=-1)

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
    """A measurement of a rule: a problem if `excess` is above 1, near its bound otherwise."""

    key: str
    """The subject: a metric, or an attempt. A rule has one open finding per key."""
    title: str
    first: int
    last: int
    """First and last step of the problem."""
    figures: Figures
    series: tuple[str, ...]
    """Metrics that show it; none for liveness."""
    excess: float = inf
    """Value divided by bound: the rule fires above 1."""
    critical_at: float = inf
    """Excess above which the finding is critical; below, it is a warning."""

    def evidence(self) -> dict[str, Any]:
        """Return JSON; figures as pairs, because the database does not preserve the order of an object's keys."""
        return {"figures": list(self.figures.items()), "series": list(self.series)}
