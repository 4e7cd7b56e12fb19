"""Celery tasks of transcripts."""

from celery import shared_task

from webapp.runs.models import ACTIVE_STATES, Run
from webapp.transcripts.services import bodies_thin


@shared_task(name="transcripts.thin", soft_time_limit=60, time_limit=90)
def thin() -> None:
    """Keep the bodies of live runs within their budget."""
    for run in Run.objects.filter(state__in=ACTIVE_STATES):
        bodies_thin(run)
