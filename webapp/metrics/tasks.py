"""Background work on series."""

from celery import shared_task

from webapp.metrics.models import Series
from webapp.metrics.services import (
    COMPACT_RUN,
    MANY_CHUNKS,
    blocks_compact,
    blocks_unfinished,
    run_compact,
    series_compact,
)

SERIES_A_TURN = 500
GROUPS_A_TURN = 1000


@shared_task(name="metrics.compact", ignore_result=True, soft_time_limit=50, time_limit=60)
def compact() -> int:
    """Compact blocks, then merge the chunks of series with the most chunks first; returns by how many the number of rows decreased."""
    merged = sum(blocks_compact(run_id, group) for run_id, group in blocks_unfinished(GROUPS_A_TURN))
    worst = Series.objects.filter(chunk_count__gt=MANY_CHUNKS).order_by("-chunk_count")
    return merged + sum(series_compact(pk) for pk in list(worst.values_list("pk", flat=True)[:SERIES_A_TURN]))


@shared_task(name=COMPACT_RUN, ignore_result=True, soft_time_limit=110, time_limit=120)
def compact_run(run_id: str) -> int:
    """Merge the chunks of a run that has ended; returns by how many the number of rows decreased."""
    return run_compact(run_id)
