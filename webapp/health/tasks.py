"""Background work on health."""

import logging

from celery import shared_task
from django.db.models import F, Q
from django.db.models.functions import Coalesce

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
