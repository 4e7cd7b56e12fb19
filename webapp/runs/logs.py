"""The log of a run: lines of its workers, and of the server itself."""

from datetime import UTC, datetime
from typing import Literal

from django.db import connection
from django.db.models import Q, QuerySet
from django.utils import timezone
from pydantic import BaseModel, ConfigDict, Field

from webapp.runs.models import LogLine, Run
from workers.telemetry.events import LogEvent

Level = Literal["debug", "output", "info", "warning", "error"]
LEVELS: dict[Level, str] = {
    "debug": "debug and up",
    "output": "output and up",
    "info": "info and up",
    "warning": "warnings and errors",
    "error": "errors only",
}
"""Levels of log lines from the lowest to the highest, with the label of the filter. output: what processes write to stdout and stderr."""
MOST = 2000
"""Maximum number of lines of one read."""
MOST_SOURCES = 200


_SOURCES = """
WITH RECURSIVE sources AS (
  (SELECT source FROM runs_logline WHERE run_id = %s ORDER BY source LIMIT 1)
  UNION ALL
  SELECT (SELECT line.source FROM runs_logline line WHERE run_id = %s AND line.source > sources.source ORDER BY line.source LIMIT 1)
  FROM sources WHERE source IS NOT NULL
)
SELECT source FROM sources WHERE source IS NOT NULL LIMIT %s
"""


class LineFilter(BaseModel):
    """A choice of log lines; empty values choose all."""

    model_config = ConfigDict(frozen=True)

    source: str = Field("", max_length=80, description="Only lines of this source.")
    level: Literal["", Level] = Field("", description="Only lines of this level and above.")
    q: str = Field(
        "", max_length=200, description="Only lines with this text in their source or message, in any case."
    )

    def of(self, run: Run) -> QuerySet[LogLine]:
        """Return the run's lines that match, in no order."""
        lines = LogLine.objects.of_run(run, ascending=bool(self.source))
        if self.source:
            lines = lines.filter(source=self.source)
        if self.level:
            levels = list(LEVELS)
            lines = lines.filter(level__in=levels[levels.index(self.level) :])
        if self.q:
            lines = lines.filter(Q(message__icontains=self.q) | Q(source__icontains=self.q))
        return lines


EVERY_LINE = LineFilter()


def log_lines(
    run: Run,
    after: int | None = None,
    before: int | None = None,
    limit: int = 500,
    chosen: LineFilter = EVERY_LINE,
) -> list[LogLine]:
    """Return matching lines, oldest first: the first ones with an id above `after`, or else the last ones (with an id below `before`).

    Lines of a run are stored under its row lock, so ids of lines that become visible later are higher: following by `after`
    loses nothing.
    """
    lines = chosen.of(run)
    if before is not None:
        lines = lines.filter(pk__lt=before)
    if after is not None:
        return list(lines.filter(pk__gt=after).order_by("pk")[:limit])
    return list(reversed(lines.order_by("-pk")[:limit]))


def log_sources(run: Run) -> list[str]:
    """Return the sources of a run's lines in alphabetical order, at most MOST_SOURCES. One short read of an index per source."""
    with connection.cursor() as database:
        database.execute(_SOURCES, [run.pk, run.pk, MOST_SOURCES])
        return [source for (source,) in database.fetchall()]


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


def server_says(run: Run, attempt: int, message: str, level: str = "warning", source: str = "server") -> None:
    """Write a line of the server to the run's log. Callers hold the run's row lock."""
    LogLine.objects.create(
        run=run,
        attempt=attempt,
        cursor=run.event_count,
        time=timezone.now(),
        level=level,
        source=source,
        message=message,
    )
