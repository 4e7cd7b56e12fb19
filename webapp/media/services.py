"""Storage of media."""

import orjson
import zstandard

from webapp.media.models import MediaValue
from webapp.runs.models import Run
from workers.telemetry.events import AnyMedia, ImageMedia, MediaEvent
from workers.telemetry.limits import image_type


def media_store(run: Run, cursor: int, events: list[MediaEvent]) -> None:
    """Store one row per value."""
    rows = MediaValue.objects.bulk_create(
        _row(run, event, position, value) for event in events for position, value in enumerate(event.values)
    )
    run.media_count += len(rows)
    run.save(update_fields=["media_count"])


def _row(run: Run, event: MediaEvent, position: int, value: AnyMedia) -> MediaValue:
    if isinstance(value, ImageMedia):
        data = value.content
        facts = {"media_type": image_type(data[:16]), "width": value.width, "height": value.height}
    else:
        data = zstandard.compress(orjson.dumps(value.model_dump(mode="json", exclude={"kind", "caption"})))
        facts = {}
    return MediaValue(
        run=run,
        attempt=event.attempt,
        step=event.step,
        time=event.time,
        name=event.name,
        kind=value.kind,
        position=position,
        caption=value.caption,
        data=data,
        size=len(data),
        **facts,
    )
