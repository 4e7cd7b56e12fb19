"""Background work on health."""

import logging

from celery import shared_task
from django.db.models import F, Q
from django.db.models.functions import Coalesce

from webapp.health.models import Finding
from webapp.health.notifying import finding_notify
from webapp.health.services import run_check
from webapp.runs.models import Run, RunState

log = logging.getLogger(__name__)
RUNS_A_TURN = 100


@shared_task(name="health.watch", ignore_result=True, soft_time_limit=50, time_limit=60)
def watch() -> int:
    """Check every run that is active or has new metrics; returns their number."""
    news = Q(event_count__gt=Coalesce(F("checked__cursor"), 0))
    due = Run.objects.filter(news | Q(state=RunState.RUNNING)).order_by("-created_at")
    done = 0
    for run_id in list(due.values_list("pk", flat=True)[:RUNS_A_TURN]):
        try:
            run_check(run_id)
            done += 1
        except Exception:
            log.exception("the health of run %s could not be checked", run_id)
    return done


@shared_task(name="health.notify", ignore_result=True, soft_time_limit=50, time_limit=60)
def notify(finding_id: int) -> None:
    """Send the messages about a finding to the project's channels."""
    finding = Finding.objects.select_related("run__project").defer("run__facts").filter(pk=finding_id).first()
    if finding:
        finding_notify(finding)
