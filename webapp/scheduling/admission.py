"""Admission of queued runs: by priority, then by age. A run that waits for devices reserves them, so that a later
one only takes the remaining ones.
"""

import logging
from collections.abc import Iterable

from django.db.models import Q

from training_core.errors import Advice
from webapp.quotas.services import admission_reason
from webapp.runs.costs import Demands, demands_of, runs_holding, runs_waiting
from webapp.runs.models import Run
from workers.launchers.launcher import Capacity
from workers.sizing.placement import SLACK, Demand

log = logging.getLogger(__name__)


def what_it_waits_for(run: Run, wanted: Demand, capacity: Capacity | None) -> str:
    """Return an empty text if the run fits next to the runs that hold devices and those before it; else the reason."""
    if capacity is None:
        return "Waiting for Ray, which does not answer"
    if reason := never_fits(wanted, capacity):
        return reason
    holding = demands_of(runs_holding().exclude(pk=run.pk))
    if reason := _quota_says(run, wanted, holding):
        return reason
    held = [need for _, need in holding]
    free = left(capacity, held)
    if not _covers(free, wanted):
        return f"Waiting for {wanted}; {_others(len(held))} using them"
    before = demands_before(run, capacity, holding)
    if not _covers(left(capacity, [*held, *before]), wanted):
        return f"Waiting for {wanted}, which {_others(len(before))} to get first, with a higher priority or an earlier launch"
    return ""


def never_fits(wanted: Demand, capacity: Capacity) -> str:
    """Return why the demand does not even fit on an empty cluster; empty if it does."""
    if fits(wanted, capacity):
        return ""
    return Advice(
        f"Waiting for {wanted}; the cluster has {capacity.cpus:g} CPU cores and {capacity.gpus:g} GPUs in total.",
        "Add nodes, or lower policies.*.devices and resources.environment_cpus",
    )


def fits(wanted: Demand, capacity: Capacity) -> bool:
    """Whether the demand fits on an empty cluster."""
    return wanted.cpus <= capacity.cpus + SLACK and wanted.gpus <= capacity.gpus + SLACK


def left(capacity: Capacity, demands: Iterable[Demand]) -> Demand:
    """Return the remaining devices after all demands; may be negative."""
    listed = list(demands)
    cpus = capacity.cpus - sum(need.cpus for need in listed)
    return Demand(cpus, capacity.gpus - sum(need.gpus for need in listed), ())


def demands_before(run: Run, capacity: Capacity, holding: Demands) -> list[Demand]:
    """Return the demands of the runs before it in the queue that could run here: runs that never fit, or wait for their
    project's quota, do not block others.
    """
    older = Q(priority=run.priority, created_at__lt=run.created_at)
    before = runs_waiting().filter(Q(priority__gt=run.priority) | older).exclude(pk=run.pk)
    return _able(before, capacity, holding)


def demands_ahead(capacity: Capacity) -> list[Demand]:
    """Return the demands ahead of a run submitted now: of the runs that hold devices, and of the queue."""
    holding = demands_of(runs_holding())
    return [wanted for _, wanted in holding] + _able(runs_waiting(), capacity, holding)


def _able(waiting: Iterable[Run], capacity: Capacity, holding: Demands) -> list[Demand]:
    return [
        wanted
        for run, wanted in demands_of(waiting)
        if fits(wanted, capacity) and not _quota_says(run, wanted, holding)
    ]


def _quota_says(run: Run, wanted: Demand, holding: Demands) -> str:
    """Return the reason of the project's quota; empty if there is none."""
    own = [need for other, need in holding if other.project_id == run.project_id]
    return admission_reason(run.project_id, wanted, own)


def _covers(free: Demand, wanted: Demand) -> bool:
    """Whether the free devices suffice; devices that are not requested are ignored."""
    cpus = not wanted.cpus or wanted.cpus <= free.cpus + SLACK
    return cpus and (not wanted.gpus or wanted.gpus <= free.gpus + SLACK)


def _others(count: int) -> str:
    return "another run is" if count == 1 else f"{count} other runs are"
