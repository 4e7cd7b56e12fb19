"""How busy the workers' devices were: a curve of so many points."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import orjson
import zstandard

from webapp.runs.models import Run
from webapp.timeline.models import Utilisation

MOST = 600
"""Points of one worker's curve."""
Sample = tuple[float, float]
"""Moment (seconds since the epoch) and percent of the device in use."""


@dataclass
class Device:
    """A worker's device over a window."""

    name: str
    """Host and device; workers that share one have the same."""
    samples: list[Sample] = field(default_factory=list)
    """In order of time."""

    @property
    def mean(self) -> float | None:
        """Percent, over the samples; None where there are none."""
        return sum(percent for _, percent in self.samples) / len(self.samples) if self.samples else None


def utilisation_read(run: Run, start: float, end: float, most: int = MOST) -> dict[str, Device]:
    """By worker: its (latest) device, and at most `most` points from start to end, each the mean of its stretch of time."""
    devices: dict[str, Device] = {}
    rows = Utilisation.objects.filter(run=run, start__lte=end, end__gte=start).order_by("start", "pk")
    for worker, name, data in rows.values_list("worker", "device", "data"):
        device = devices.setdefault(worker, Device(name))
        device.name = name
        samples = orjson.loads(zstandard.decompress(data))
        device.samples += [(moment, percent) for moment, percent in samples if start <= moment <= end]
    for device in devices.values():
        device.samples = thinned(sorted(device.samples), start, end, most)
    return devices


def thinned(samples: Sequence[Sample], start: float, end: float, most: int) -> list[Sample]:
    """The samples, or where there are more than `most` the means of so many equal stretches, at their first moments."""
    if len(samples) <= most or end <= start:
        return list(samples)
    stretches: dict[int, list[Sample]] = {}
    for moment, percent in samples:
        place = min(most - 1, int(most * (moment - start) / (end - start)))
        stretches.setdefault(place, []).append((moment, percent))
    return [
        (some[0][0], sum(percent for _, percent in some) / len(some)) for _, some in sorted(stretches.items())
    ]
