"""Keeping what updates learnt from."""

import orjson
import zstandard

from webapp.runs.models import Run
from webapp.timeline.models import Batch
from workers.launch.events import BatchEvent


def batches_store(run: Run, cursor: int, events: list[BatchEvent]) -> None:
    """One row per event."""
    Batch.objects.bulk_create(
        Batch(
            run=run,
            attempt=event.attempt,
            cursor=cursor,
            iteration=event.iteration,
            consumed=event.consumed,
            learnt=event.learnt,
            data=zstandard.compress(
                orjson.dumps([each.model_dump(mode="json", exclude_defaults=True) for each in event.episodes])
            ),
        )
        for event in events
    )
