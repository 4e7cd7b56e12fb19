"""Utilisation of the workers' devices, as curves with a limited number of points."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import orjson
import zstandard

from webapp.runs.models import Run
from webapp.timeline.models import Utilisation

MOST = 600
"""Maximum number of points of one worker's curve."""
Sample = tuple[float, float]
"""Time (seconds since the epoch) and utilisation in percent."""


@dataclass
class Device:
    """A worker's device over a window."""

    name: str
    """Host and device; workers on the same device have the same."""
    samples: list[Sample] = field(default_factory=list)
    """In order of time."""

    @property
    def mean(self) -> float | None:
        """Mean utilisation in percent over the samples; None if there are none."""
        return sum(percent for _, percent in self.samples) / len(self.samples) if self.samples else None


def utilisation_read(run: Run, start: float, end: float, most: int = MOST) -> dict[str, Device]:
    """Return by worker its (latest) device and at most `most` points from start to end, each the mean of its interval."""
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
    """Return the samples, or if there are more than `most`, the means of that many equal intervals, at their start times."""
    if len(samples) <= most or end <= start:
        return list(samples)
    stretches: dict[int, list[Sample]] = {}
    for moment, percent in samples:
        index = min(most - 1, int(most * (moment - start) / (end - start)))
        stretches.setdefault(index, []).append((moment, percent))
    return [
        (some[0][0], sum(percent for _, percent in some) / len(some)) for _, some in sorted(stretches.items())
    ]
