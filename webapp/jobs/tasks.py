"""Background work on short jobs."""

from celery import shared_task

from webapp.jobs.services import jobs_follow, jobs_submit


@shared_task(name="jobs.submit", ignore_result=True, soft_time_limit=60, time_limit=90)
def submit() -> None:
    """Start queued jobs."""
    jobs_submit()


@shared_task(name="jobs.follow", ignore_result=True, soft_time_limit=50, time_limit=60)
def follow() -> None:
    """Follow running jobs, and start queued ones."""
    jobs_follow()
