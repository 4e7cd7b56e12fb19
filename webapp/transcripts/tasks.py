"""Celery tasks of transcripts."""

from datetime import timedelta

from celery import shared_task
from django.db.models import Q
from django.utils import timezone

from webapp.runs.models import ACTIVE_STATES, Run
from webapp.transcripts.services import bodies_thin


@shared_task(name="transcripts.thin", soft_time_limit=60, time_limit=90)
def thin() -> None:
    """Limit the bodies of active and recently ended runs to their budget."""
    lately = Q(ended_at__gt=timezone.now() - timedelta(hours=1))
    for run in Run.objects.filter(Q(state__in=ACTIVE_STATES) | lately):
        bodies_thin(run)
