"""Checks of a run's processes."""

from collections.abc import Iterator
from math import inf

from training_core.config import health as config
from webapp.health.inputs import Figures, Found, HealthInputs


def stalled_phase(seen: HealthInputs, rule: config.StalledPhase) -> Iterator[Found]:
    """Measures the time without metrics although the driver sends heartbeats."""
    idle, usual = seen.vitals.idle, seen.vitals.usual
    if idle is not None:
        bound = max(rule.least, rule.times * (usual or 0.0))
        figures: Figures = {"seconds without metrics": idle, "usual seconds": usual or 0.0}
        title = f"No iteration has ended for {idle:.0f} s, although the driver is alive"
        yield _live(seen, "progress", title, figures, idle, bound)


def dead_worker(seen: HealthInputs, rule: config.DeadWorker) -> Iterator[Found]:
    """Measures the silence of the driver, and detects attempts that died."""
    silent, lost = seen.vitals.silent, seen.vitals.lost
    if silent is not None:
        title = f"The driver has not reported for {silent:.0f} s"
        figures: Figures = {"seconds of silence": silent}
        yield _live(seen, "driver", title, figures, silent, rule.silence)
    for number in lost:
        figures = {"attempt": number, "reason": seen.vitals.reasons.get(number, "")[:400]}
        title = f"Attempt {number} ended with an error"
        yield Found(f"attempt {number}", title, seen.step, seen.step, figures, (), 1.0, 0.0)


def lost_events(seen: HealthInputs, rule: config.LostEvents) -> Iterator[Found]:
    """Detects events of the run's programs that could neither be written nor delivered."""
    count = seen.vitals.lost_events
    title = f"{count:,} events of this run are lost, because its disk was full"
    excess = inf if count else 0.0
    yield Found("disk", title, seen.step, seen.step, {"lost events": count}, (), count, 0.0, excess)


def _live(seen: HealthInputs, key: str, title: str, figures: Figures, value: float, bound: float) -> Found:
    """Return a measurement that is critical above its bound, and over as soon as it is below."""
    excess = value / bound
    return Found(key, title, seen.step, seen.step, figures, (), value, bound, excess, critical_at=1.0)
