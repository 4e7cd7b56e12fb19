"""Enforcement of a project's quota on starting runs and on storing events.

A quota loses no data: runs wait in the queue, and events wait on the trainer's disk until there is room.
"""

from collections.abc import Sequence
from math import inf

from webapp.common.compiled import CompiledQuery
from webapp.quotas.models import Quota
from workers.sizing.placement import Demand

GIGA = 10**9
SLACK = 1e-6
HELD = "Events wait on the trainer's disk: "
"""Prefix of a run's reason while its events are not stored."""
_QUOTA = CompiledQuery(lambda project_id: Quota.objects.filter(project=project_id))


def admission_reason(project_id: int, wanted: Demand, held: Sequence[Demand]) -> str:
    """Return why a run of this project with the demand `wanted` cannot start while its other runs hold `held`; empty if it
    can. Names the quota.
    """
    quota = _QUOTA.first(project_id)
    if quota is None:
        return ""
    if quota.runs is not None and len(held) >= quota.runs:
        return f"Waiting for the project's quota of {quota.runs} concurrent runs; {len(held)} are active"
    for name, words in (("cpus", "CPU cores"), ("gpus", "GPUs")):
        limit, asked = getattr(quota, name), getattr(wanted, name)
        taken = sum(getattr(need, name) for need in held)
        if limit is None or not asked or asked + taken <= limit + SLACK:
            continue
        if asked > limit + SLACK:
            return (
                f"Waiting: it needs {asked:g} {words}, more than the project's quota of {limit:g}; "
                "reduce its resources, or request a higher quota"
            )
        return f"Waiting for the project's quota of {limit:g} {words}: it needs {asked:g}, and {taken:g} are in use"
    full = _full(quota)
    return f"Waiting: {full}" if full else ""


def runs_left(project_id: int, held: int) -> int | None:
    """Return how many runs of this project may start while `held` hold devices; None without a limit."""
    quota = _QUOTA.first(project_id)
    return None if quota is None or quota.runs is None else max(0, quota.runs - held)


def processes_left(project_id: int, wanted: Demand, held: Sequence[Demand]) -> float:
    """Return how many processes with the demand `wanted` the limits of devices allow while others hold `held`; inf without a limit."""
    quota = _QUOTA.first(project_id)
    limits = [inf]
    for name in ("cpus", "gpus"):
        limit, asked = getattr(quota, name, None), getattr(wanted, name)
        if limit is not None and asked:
            limits.append((limit - sum(getattr(need, name) for need in held) + SLACK) // asked)
    return min(limits)


def storage_held(project_id: int) -> str:
    """Return a run's reason if events of this project cannot be stored now; empty if there is room."""
    quota = _QUOTA.first(project_id)
    full = _full(quota) if quota else ""
    return HELD + full if full else ""


def _full(quota: Quota) -> str:
    """Compare the last measurement with the quota."""
    if quota.points is not None and quota.stored_points >= quota.points:
        return f"the project stores {quota.stored_points:,} points, and its quota is {quota.points:,}; request a higher quota"
    if quota.gigabytes is not None and quota.stored_bytes >= quota.gigabytes * GIGA:
        stored = quota.stored_bytes / GIGA
        return f"the project stores {stored:.3g} GB, and its quota is {quota.gigabytes:g} GB; remove checkpoints, or request a higher quota"
    return ""
