"""Severity levels with hysteresis: raised at one bound, lowered below a smaller one."""

from enum import IntEnum

from webapp.health.inputs import Found


class Level(IntEnum):
    """Severity in increasing order."""

    NONE = 0
    WARNING = 1
    CRITICAL = 2


def level_now(before: Level, measurement: Found, relax: float) -> Level:
    """Return the level of a measurement, given the previous level: a level is kept down to `relax` times its bound."""
    if _reached(measurement.excess, measurement.critical_at, before is Level.CRITICAL, relax):
        return Level.CRITICAL
    return Level.WARNING if _reached(measurement.excess, 1.0, before >= Level.WARNING, relax) else Level.NONE


def _reached(excess: float, bound: float, held: bool, relax: float) -> bool:
    return excess > bound or held and excess >= relax * bound
