"""How serious a finding is, with hysteresis: up at one bound, down below a lower one."""

from enum import IntEnum

from webapp.health.observed import Found


class Level(IntEnum):
    """In rising order."""

    NONE = 0
    WARN = 1
    BAD = 2


def level_now(before: Level, found: Found, relax: float) -> Level:
    """The level that a figure calls for, given the level before: a level once reached holds down to `relax` of its bound."""
    if _reached(found.excess, found.bad_at, before is Level.BAD, relax):
        return Level.BAD
    return Level.WARN if _reached(found.excess, 1.0, before >= Level.WARN, relax) else Level.NONE


def _reached(excess: float, bound: float, held: bool, relax: float) -> bool:
    return excess > bound or held and excess >= relax * bound
