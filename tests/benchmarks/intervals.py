"""Statistics of repeated measurements: median and spread, ratios of pairs, and the interval of a ratio."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, log, sqrt
from statistics import mean, median, stdev


@dataclass(frozen=True)
class Spread:
    """The median of repeated measurements, the lowest and the highest of them."""

    median: float
    lowest: float
    highest: float


@dataclass(frozen=True)
class RatioInterval:
    """A ratio of two sides with its 95 % interval; both bounds are None with fewer than two pairs."""

    ratio: float
    low: float | None
    high: float | None

    @property
    def differs(self) -> bool:
        """Whether the interval excludes 1."""
        return self.low is not None and self.high is not None and not self.low <= 1 <= self.high


def spread(values: Sequence[float]) -> Spread:
    """Return the spread of at least one value."""
    return Spread(median(values), min(values), max(values))


def paired_ratios(numerators: Sequence[float], denominators: Sequence[float]) -> list[float]:
    """Return the ratio of each pair, measured one directly after the other. Raises ValueError without pairs or for a value of 0."""
    if len(numerators) != len(denominators) or not numerators:
        raise ValueError(f"{len(numerators)} and {len(denominators)} values are not pairs")
    if min(*numerators, *denominators) <= 0:
        raise ValueError("a ratio needs positive values")
    return [top / bottom for top, bottom in zip(numerators, denominators, strict=True)]


def ratio_interval(numerators: Sequence[float], denominators: Sequence[float]) -> RatioInterval:
    """Return the geometric mean of the ratios of pairs, with the 95 % interval of Student's t over their logarithms."""
    from scipy.stats import t as student

    logarithms = [log(ratio) for ratio in paired_ratios(numerators, denominators)]
    centre, count = mean(logarithms), len(logarithms)
    if count < 2:
        return RatioInterval(exp(centre), None, None)
    half = float(student.ppf(0.975, count - 1)) * stdev(logarithms) / sqrt(count)
    return RatioInterval(exp(centre), exp(centre - half), exp(centre + half))
