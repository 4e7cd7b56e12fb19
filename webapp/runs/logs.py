"""The log of a run: lines of its workers, and of the server itself."""

from datetime import UTC, datetime

from django.utils import timezone

from webapp.runs.models import LogLine, Run
from workers.telemetry.events import LogEvent


def log_lines(run: Run, after: int = 0, limit: int = 500) -> list[LogLine]:
    """Return lines with an id above `after`, oldest first; without `after`, the last ones."""
    lines = LogLine.objects.filter(run=run)
    if after:
        return list(lines.filter(pk__gt=after).order_by("pk")[:limit])
    return list(reversed(lines.order_by("-pk")[:limit]))


def log_lines_store(run: Run, cursor: int, events: list[LogEvent]) -> None:
    """Store log lines."""
    LogLine.objects.bulk_create(
        LogLine(
            run=run,
            attempt=event.attempt,
            cursor=cursor,
            time=datetime.fromtimestamp(event.time, UTC),
            level=event.level,
            source=event.source,
            message=event.message,
        )
        for event in events
    )


def server_says(run: Run, attempt: int, message: str, level: str = "warning") -> None:
    """Write a line of the server to the run's log."""
    LogLine.objects.create(
        run=run,
        attempt=attempt,
        cursor=run.event_count,
        time=timezone.now(),
        level=level,
        source="server",
        message=message,
    )
