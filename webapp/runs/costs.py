"""Devices that runs hold and wait for, and the time that is left of a run. What a run has cost so far: webapp.run_pages.costs."""

import logging
from collections import Counter
from collections.abc import Iterable

from django.db.models import Q, QuerySet
from django.utils import timezone

from training_core.config.files import parse_config
from training_core.errors import ConfigError
from webapp.runs.models import Attempt, Run, RunSource, RunState
from workers.sizing.placement import Demand, demand

log = logging.getLogger(__name__)
HOLDING = (RunState.STARTING, RunState.RUNNING, RunState.STOPPING)


Demands = list[tuple[Run, Demand]]


def runs_holding() -> QuerySet[Run]:
    """Return the runs that hold devices, or have just been admitted."""
    admitted = Q(state=RunState.QUEUED, attempts__state=Attempt.State.SUBMITTING)
    return Run.objects.filter(Q(state__in=HOLDING) | admitted, source=RunSource.TROUPE).distinct()


def runs_waiting() -> QuerySet[Run]:
    """Return the queue in its order."""
    waiting = Run.objects.filter(state=RunState.QUEUED, source=RunSource.TROUPE)
    return waiting.exclude(attempts__state=Attempt.State.SUBMITTING).order_by("-priority", "created_at", "pk")


def demands_of(runs: Iterable[Run]) -> Demands:
    """Return the demand of each run. A run with an unreadable config counts as no demand.

    The runs of one process together count as one.
    """
    listed = list(runs)
    sharing, demands = sharing_of(listed), []
    for run in listed:
        try:
            demands.append((run, share(demand(parse_config(run.config)), sharing.get(run.pk, 1))))
        except ConfigError:
            log.warning("run %s: its config cannot be read, so its demand is unknown", run.pk)
    return demands


def sharing_of(runs: Iterable[Run]) -> dict[str, int]:
    """Return the number of runs that have not ended in the process of each run; of those only that share one."""
    live = Attempt.objects.exclude(state=Attempt.State.ENDED).exclude(shared_job="")
    own = live.filter(run__in=[run.pk for run in runs]).values("shared_job")
    jobs = dict(live.filter(shared_job__in=own).values_list("run", "shared_job"))
    counts = Counter(jobs.values())
    return {run: counts[job] for run, job in jobs.items()}


def share(wanted: Demand, runs: int) -> Demand:
    """Return one run's part of the devices of a process that trains several runs."""
    return wanted if runs < 2 else Demand(wanted.cpus / runs, wanted.gpus / runs, wanted.bundles)


def eta_seconds(run: Run, attempt: Attempt | None) -> float | None:
    """Return the remaining seconds at the pace of the current attempt; None before its first iteration or after its end."""
    if (
        run.state not in (RunState.RUNNING, RunState.STOPPING)
        or attempt is None
        or attempt.started_at is None
        or not run.iterations
    ):
        return None
    done = run.iteration - first_iteration(run, attempt)
    if done < 1:
        return None
    spent = (timezone.now() - attempt.started_at).total_seconds()
    return round(spent / done * (run.iterations - run.iteration), 1)


def first_iteration(run: Run, attempt: Attempt) -> int:
    """Return the iteration from which the attempt starts."""
    return max(attempt.resumed_iteration, run.parent_iteration)
