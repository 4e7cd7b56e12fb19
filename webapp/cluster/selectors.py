"""What the cluster has, and which runs hold or wait for it."""

from dataclasses import asdict
from typing import Any

from django.conf import settings

from training_core.config.files import parse_config
from training_core.errors import ConfigError
from webapp.accounts.permissions import Person
from webapp.runs.models import ACTIVE_STATES, Run, RunState
from webapp.runs.selectors import runs_visible
from workers.launch.demand import Demand, demand
from workers.launch.launcher import LauncherFailure
from workers.launch.registry import make_launcher


def cluster_read(user: Person) -> dict[str, Any]:
    """{"reachable", "capacity": {cpus, gpus, free_cpus, free_gpus} | None, "runs": [...]} of the user's own runs."""
    try:
        capacity = make_launcher(settings.TROUPE_LAUNCHER).capacity()
    except LauncherFailure:
        capacity = None
    rows = []
    for run in runs_visible(user).filter(state__in=ACTIVE_STATES).order_by("created_at"):
        wanted = _demand(run)
        holds = run.state != RunState.QUEUED
        rows.append(
            {
                "run": run.pk,
                "name": run.name,
                "state": run.state,
                "holds": holds,
                "cpus": wanted and wanted.cpus,
                "gpus": wanted and wanted.gpus,
            }
        )
    return {"reachable": capacity is not None, "capacity": capacity and asdict(capacity), "runs": rows}


def _demand(run: Run) -> Demand | None:
    """None for a config that another version of Troupe wrote."""
    try:
        return demand(parse_config(run.config))
    except ConfigError:
        return None
