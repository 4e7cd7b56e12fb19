"""Who sits where in a match of two checkpoints."""

from itertools import product

SEATINGS = 16
"""A match of more seatings than this plays only those where one checkpoint holds one seat."""


def seatings(seats: list[str]) -> list[dict[str, str]]:
    """Every way to seat a and b, all-a and all-b first."""
    every = [dict(zip(seats, sides, strict=True)) for sides in product("ab", repeat=len(seats))]
    alone = [seating for seating in every if len(set(seating.values())) == 1]
    mixed = [seating for seating in every if seating not in alone]
    if len(every) > SEATINGS:
        mixed = [seating for seating in mixed if 1 in (list(seating.values()).count(side) for side in "ab")]
    return alone + mixed
