"""Background work on series."""

from celery import shared_task

from webapp.metrics.models import Series
from webapp.metrics.services import MANY_CHUNKS, series_compact

SERIES_A_TURN = 500


@shared_task(name="metrics.compact", ignore_result=True, soft_time_limit=50, time_limit=60)
def compact() -> int:
    """Merge the chunks of series with the most chunks first; returns by how many the number of rows decreased."""
    worst = Series.objects.filter(chunk_count__gt=MANY_CHUNKS).order_by("-chunk_count")
    return sum(series_compact(pk) for pk in list(worst.values_list("pk", flat=True)[:SERIES_A_TURN]))
