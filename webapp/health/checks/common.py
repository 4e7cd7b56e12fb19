"""Parts of several rules: comparisons of a mean or a median with a bound, and statistics of series.

A check yields its measurement with the excess over the bound, also below it: the caller decides whether there is a finding.
"""

from collections.abc import Callable, Iterator
from math import inf
from typing import Any, Protocol

import numpy as np

from webapp.health.inputs import Figures, Found, HealthInputs, SeriesTail

Check = Callable[[HealthInputs, Any], Iterator[Found]]
RECENT = 5
"""Number of iterations over which training success is averaged."""


class Threshold(Protocol):
    """Rules that compare a mean with a bound."""

    @property
    def window(self) -> int:
        """Number of averaged iterations."""

    @property
    def above(self) -> float:
        """The bound."""


def mean_above(metric: str, title: str, critical_at: float = inf) -> Check:
    """Return the rule that the mean of the latest values of a metric is above a bound; critical at `critical_at` times it.

    metric: a key; `*` in it stands for each policy or role. title: a format of `whose` (that name) and `mean`.
    """
    start, several, name = metric.partition("/*/")

    def check(seen: HealthInputs, rule: Threshold) -> Iterator[Found]:
        for key, whose, curve in seen.each(start, name) if several else [(metric, "", seen.one(metric))]:
            if len(curve) < rule.window:
                continue
            now = mean(curve, rule.window)
            figures: Figures = {"mean of the latest": now, "iterations": rule.window, "threshold": rule.above}
            words = title.format(whose=whose, mean=now)
            yield found(key, words, curve, rule.window, figures, now, rule.above, critical_at=critical_at)

    return check


def median_above(name: str, title: str, figure: str, critical_at: float = inf) -> Check:
    """Return the rule that the median of a policy's latest values of a metric is above a bound: single iterations do not count.

    title: a format of `whose` and `median`. figure: the median in words.
    """

    def check(seen: HealthInputs, rule: Threshold) -> Iterator[Found]:
        for key, whose, curve in seen.each("policy", name):
            if len(curve) < rule.window:
                continue
            now = float(np.median(curve.tail(rule.window).values))
            figures: Figures = {f"{figure} (median)": now, "threshold": rule.above}
            words = title.format(whose=whose, median=now)
            yield found(key, words, curve, rule.window, figures, now, rule.above, critical_at=critical_at)

    return check


def found(
    key: str,
    title: str,
    curve: SeriesTail,
    count: int,
    figures: Figures,
    value: float,
    bound: float,
    **more: Any,
) -> Found:
    """Return the measurement `value` over the last `count` points; its excess is value / bound unless `more` has one."""
    latest = curve.tail(count)
    more.setdefault("excess", ratio(value, bound))
    return Found(
        key, title, int(latest.steps[0]), int(latest.steps[-1]), figures, (key,), value, bound, **more
    )


def ratio(figure: float, bound: float) -> float:
    """Return figure / bound; infinite if a bound of 0 is exceeded."""
    if bound > 0:
        return figure / bound
    return inf if figure > 0 else 0.0


def mean(curve: SeriesTail, count: int) -> float:
    """Return the mean of the last points."""
    return float(np.mean(curve.tail(count).values))


def rolling(curve: SeriesTail, count: int) -> SeriesTail:
    """Return the means of `count` points in a row, each at the step of the first; empty if there are fewer."""
    if len(curve) < count:
        return SeriesTail(curve.steps[:0], curve.values[:0])
    means = np.convolve(curve.values, np.full(count, 1 / count), "valid")
    return SeriesTail(curve.steps[: len(means)], means)


def solved(seen: HealthInputs, bound: float) -> str:
    """Return why a rule on unsolved tasks does not count: the latest held-out success, or recent training success, has
    reached the bound. Empty if it has not.
    """
    held, train = seen.one("eval/success"), seen.one("train/success")
    latest = [float(held.values[-1])] if len(held) else []
    latest += [mean(train, RECENT)] if len(train) else []
    if latest and max(latest) >= bound:
        return f"the tasks are solved: success {max(latest):.2f}"
    return ""
