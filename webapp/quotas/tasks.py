"""Celery tasks of quotas."""

from celery import shared_task
from django.db.models import Q

from webapp.quotas.models import Quota
from webapp.quotas.services import quota_measure


@shared_task(name="quotas.measure", ignore_result=True, soft_time_limit=50, time_limit=60)
def measure() -> int:
    """Measure the stored data of every project with a limit on it; returns their number."""
    limited = Quota.objects.exclude(Q(points=None) & Q(gigabytes=None)).select_related("project")
    return len([quota_measure(quota) for quota in limited])
