"""Assignments of two checkpoints to roles in a match."""

from itertools import product

MAX_ASSIGNMENTS = 16
"""With more assignments than this, a match plays only those in which one checkpoint has exactly one role."""


def checkpoint_assignments(roles: list[str]) -> list[dict[str, str]]:
    """Assignments of the checkpoints "a" and "b" to the roles (or policies), all-a and all-b first."""
    all_assignments = [dict(zip(roles, sides, strict=True)) for sides in product("ab", repeat=len(roles))]
    uniform = [assignment for assignment in all_assignments if len(set(assignment.values())) == 1]
    mixed = [assignment for assignment in all_assignments if assignment not in uniform]
    if len(all_assignments) > MAX_ASSIGNMENTS:
        mixed = [item for item in mixed if 1 in (list(item.values()).count(side) for side in "ab")]
    return uniform + mixed
