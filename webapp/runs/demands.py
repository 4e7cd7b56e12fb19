"""Devices that runs hold and wait for."""

import logging
from collections.abc import Iterable

from django.db.models import Q, QuerySet

from training_core.config.files import parse_config
from training_core.errors import ConfigError
from webapp.runs.models import Attempt, Run, RunSource, RunState
from workers.sizing.demand import Demand, demand

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
    """Return the demand of each run. A run with an unreadable config counts as no demand."""
    demands = []
    for run in runs:
        try:
            demands.append((run, demand(parse_config(run.config))))
        except ConfigError:
            log.warning("run %s: its config cannot be read, so its demand is unknown", run.pk)
    return demands
