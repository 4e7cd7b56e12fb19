"""Arithmetic throughput of spans: model FLOPs per second, and their share of the devices' peak."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from webapp.timeline.spans import LaneSpan

UNITS = ((1e15, "PFLOP/s"), (1e12, "TFLOP/s"), (1e9, "GFLOP/s"), (1e6, "MFLOP/s"))


@dataclass
class Compute:
    """Totals of spans with counted FLOPs."""

    flops: float = 0.0
    seconds: float = 0.0
    possible: float | None = 0.0
    """Peak FLOPs of their devices in that time; None if a peak is unknown."""

    def add(self, span: LaneSpan) -> None:
        """Add a span, if its FLOPs are known."""
        if span.flops is None:
            return
        seconds = span.end - span.start
        self.flops += span.flops
        self.seconds += seconds
        known = self.possible is not None and span.peak is not None
        self.possible = self.possible + seconds * span.peak if known else None  # type: ignore[operator]

    @property
    def rate(self) -> float:
        """Model FLOPs per second."""
        return self.flops / self.seconds if self.seconds > 0 else 0.0

    @property
    def mfu(self) -> float | None:
        """Model FLOPs utilisation, 0 to 1; None if a device's peak is unknown."""
        return self.flops / self.possible if self.possible else None

    @property
    def said(self) -> str:
        """As text: "41.0% MFU, 405 TFLOP/s" or "2.3 GFLOP/s, peak not known"."""
        rate = rate_show(self.rate)
        return f"{rate}, peak not known" if self.mfu is None else f"{100 * self.mfu:.1f}% MFU, {rate}"


def compute_by_phase(spans: Iterable[LaneSpan]) -> dict[str, Compute]:
    """Return the totals of phases with counted FLOPs."""
    totals: dict[str, Compute] = {}
    for span in spans:
        if span.flops is not None:
            totals.setdefault(span.phase, Compute()).add(span)
    return totals


def compute_document(totals: Mapping[str, Compute]) -> dict[str, Any]:
    """Return JSON: phase -> {"flops_per_second", "mfu" (0 to 1, or null if a device's peak is unknown)}."""
    return {phase: {"flops_per_second": total.rate, "mfu": total.mfu} for phase, total in totals.items()}


def rate_show(rate: float) -> str:
    """Return FLOPs per second with a unit: "12.4 GFLOP/s"."""
    size, unit = next(((size, unit) for size, unit in UNITS if rate >= size), UNITS[-1])
    return f"{rate / size:.3g} {unit}"
