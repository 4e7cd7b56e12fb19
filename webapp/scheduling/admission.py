"""Who is admitted next: by priority, then by age. A run that waits for devices keeps its claim on them, so that a later
one takes only what those before it leave.
"""

import logging
from collections.abc import Iterable

from django.db.models import Q

from webapp.quotas.enforcement import admission_reason
from webapp.runs.demands import Demands, demands_of, runs_holding, runs_waiting
from webapp.runs.models import Run
from workers.launchers.launcher import Capacity
from workers.sizing.demand import Demand

log = logging.getLogger(__name__)
SLACK = 1e-6
"""Sums of fractions of a core are not exact."""


def what_it_waits_for(run: Run, wanted: Demand, capacity: Capacity | None) -> str:
    """Empty where the run fits beside those that hold devices and those before it; else a sentence for its owner."""
    if capacity is None:
        return "waits for Ray, which does not answer"
    if not fits(wanted, capacity):
        return (
            f"waits for {wanted}; the cluster has {capacity.cpus:g} CPU cores and {capacity.gpus:g} GPUs in all. "
            "Add nodes, or lower policies.*.devices and resources.environment_cpus"
        )
    holding = demands_of(runs_holding().exclude(pk=run.pk))
    if reason := _quota_says(run, wanted, holding):
        return reason
    held = [each for _, each in holding]
    free = left(capacity, held)
    if not _covers(free, wanted):
        return f"waits for {wanted}; {_runs(len(held))} before it hold{'s' * (len(held) == 1)} the rest"
    before = demands_before(run, capacity, holding)
    if not _covers(left(capacity, [*held, *before]), wanted):
        return f"waits for {wanted}; {_runs(len(before))} with a higher priority, or older, come{'s' * (len(before) == 1)} first"
    return ""


def fits(wanted: Demand, capacity: Capacity) -> bool:
    """Whether an empty cluster would do."""
    return wanted.cpus <= capacity.cpus + SLACK and wanted.gpus <= capacity.gpus + SLACK


def left(capacity: Capacity, demands: Iterable[Demand]) -> Demand:
    """What is over when all of these are served; may be negative."""
    listed = list(demands)
    cpus = capacity.cpus - sum(each.cpus for each in listed)
    return Demand(cpus, capacity.gpus - sum(each.gpus for each in listed), ())


def demands_before(run: Run, capacity: Capacity, holding: Demands) -> list[Demand]:
    """Of the runs that stand before it in the queue and could run here: what never fits, or waits for its project's
    quota, keeps nobody waiting.
    """
    older = Q(priority=run.priority, created_at__lt=run.created_at)
    before = runs_waiting().filter(Q(priority__gt=run.priority) | older).exclude(pk=run.pk)
    return _able(before, capacity, holding)


def demands_ahead(capacity: Capacity) -> list[Demand]:
    """Of all that a run submitted now would come after: those that hold devices, and the queue."""
    holding = demands_of(runs_holding())
    return [wanted for _, wanted in holding] + _able(runs_waiting(), capacity, holding)


def _able(waiting: Iterable[Run], capacity: Capacity, holding: Demands) -> list[Demand]:
    return [
        wanted
        for run, wanted in demands_of(waiting)
        if fits(wanted, capacity) and not _quota_says(run, wanted, holding)
    ]


def _quota_says(run: Run, wanted: Demand, holding: Demands) -> str:
    """What the quota of its project has against it."""
    own = [each for other, each in holding if other.project_id == run.project_id]
    return admission_reason(run.project_id, wanted, own)


def _covers(free: Demand, wanted: Demand) -> bool:
    """Devices that a run does not ask for do not matter to it."""
    cpus = not wanted.cpus or wanted.cpus <= free.cpus + SLACK
    return cpus and (not wanted.gpus or wanted.gpus <= free.gpus + SLACK)


def _runs(count: int) -> str:
    return f"{count} run{'s' * (count != 1)}"
