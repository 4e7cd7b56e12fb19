"""Severity levels with hysteresis: raised at one bound, lowered below a smaller one."""

from enum import IntEnum

from webapp.health.inputs import Found


class Level(IntEnum):
    """Severity in increasing order."""

    NONE = 0
    WARN = 1
    BAD = 2


def level_now(before: Level, measurement: Found, relax: float) -> Level:
    """Return the level of a measurement, given the previous level: a level is kept down to `relax` times its bound."""
    if _reached(measurement.excess, measurement.bad_at, before is Level.BAD, relax):
        return Level.BAD
    return Level.WARN if _reached(measurement.excess, 1.0, before >= Level.WARN, relax) else Level.NONE


def _reached(excess: float, bound: float, held: bool, relax: float) -> bool:
    return excess > bound or held and excess >= relax * bound
