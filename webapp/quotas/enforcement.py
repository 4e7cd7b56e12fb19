"""What a project's quota says to a run that wants to start, and to events that want to be stored.

Nothing is lost by a quota: a run waits in the queue, and events wait on the trainer's disk until there is room.
"""

from collections.abc import Sequence

from webapp.quotas.models import Quota
from workers.sizing.demand import Demand

GIGA = 10**9
SLACK = 1e-6
HELD = "events wait on the trainer's disk: "
"""How a run's reason begins while the store is full."""


def admission_reason(project_id: int, wanted: Demand, held: Sequence[Demand]) -> str:
    """Why a run of this project that wants these devices may not start beside those of its runs that hold some; empty
    where it may. Says which quota it is.
    """
    quota = Quota.objects.filter(project=project_id).first()
    if quota is None:
        return ""
    if quota.runs is not None and len(held) >= quota.runs:
        return f"waits for the project's quota of {quota.runs} runs at once; {len(held)} are at work"
    for name, words in (("cpus", "CPU cores"), ("gpus", "GPUs")):
        limit, asked = getattr(quota, name), getattr(wanted, name)
        taken = sum(getattr(each, name) for each in held)
        if limit is None or not asked or asked + taken <= limit + SLACK:
            continue
        if asked > limit + SLACK:
            return (
                f"waits: it wants {asked:g} {words}, more than the project's quota of {limit:g} at once; "
                "lower what it wants, or have the quota raised"
            )
        return f"waits for the project's quota of {limit:g} {words} at once: it wants {asked:g}, and {taken:g} are taken"
    full = _full(quota)
    return f"waits: {full}" if full else ""


def storage_held(project_id: int) -> str:
    """Why no more events of this project are stored now, as a run's reason; empty where there is room."""
    quota = Quota.objects.filter(project=project_id).first()
    full = _full(quota) if quota else ""
    return HELD + full if full else ""


def _full(quota: Quota) -> str:
    """By the last measurement."""
    if quota.points is not None and quota.stored_points >= quota.points:
        return f"the project stores {quota.stored_points:,} points, and its quota is {quota.points:,}; have it raised"
    if quota.gigabytes is not None and quota.stored_bytes >= quota.gigabytes * GIGA:
        stored = quota.stored_bytes / GIGA
        return f"the project stores {stored:.3g} GB, and its quota is {quota.gigabytes:g} GB; remove checkpoints, or have it raised"
    return ""
