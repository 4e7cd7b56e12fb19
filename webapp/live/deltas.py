"""Deltas of a run between two cursors, as the JSON text sent to every socket that watches it."""

from dataclasses import dataclass
from typing import Any

import orjson
from django.db import connection

from webapp.checkpoints.models import Checkpoint
from webapp.metrics.arrays import spell
from webapp.metrics.selectors import points_after
from webapp.metrics.services import NARROW
from webapp.runs.models import Run
from webapp.runs.selectors import run_for_summary, run_summary, summary_for_visitors
from webapp.transcripts.models import Episode, EpisodeAnnotation

MANY_ROWS = 500
"""Maximum number of episodes or annotations; beyond it, clients reload. Of the log, a delta has the last id: pages read by id."""
_NEWS = """
SELECT COALESCE((SELECT id FROM runs_logline WHERE run_id IN (%s, '') ORDER BY run_id, id DESC LIMIT 1), 0),
  EXISTS (SELECT FROM transcripts_episode WHERE run_id = %s AND cursor > %s AND cursor <= %s),
  EXISTS (SELECT FROM transcripts_episodeannotation WHERE run_id = %s AND cursor > %s AND cursor <= %s),
  EXISTS (SELECT FROM checkpoints_checkpoint WHERE run_id = %s AND cursor > %s AND cursor <= %s)
"""
_EPISODE = (
    "id", "name", "attempt", "iteration", "kind", "probe", "task", "title", "outcome", "success", "failed", "error",
    "truncated", "episode_return", "rewards", "versions", "turn_count", "tokens", "started", "ended",
)  # fmt: skip
_CHECKPOINT = ("id", "attempt", "iteration", "path", "size", "metrics", "best", "removed", "damaged", "time")


@dataclass(frozen=True)
class Delta:
    """`text` brings a client from `start` to `end`."""

    start: int
    end: int
    text: str
    summary: bytes
    """The run's summary, for detecting changes."""


def resync(cursor: int) -> str:
    """Return the message for a client that is too far behind: reload through the API and continue from `cursor`."""
    return _dumps({"type": "resync", "cursor": cursor}).decode()


def delta_read(
    run_id: str, cursor: int | None, until: int | None = None, known: bytes | None = None
) -> Delta | None:
    """Return the events after `cursor` (None: only the summary), up to `until` (None: now).

    None if there are no new events and the summary equals `known`, or the run was deleted. One thread-safe database read.
    """
    run = run_for_summary(run_id)
    if run is None:
        return None
    end = run.event_count if until is None else min(until, run.event_count)
    start = end if cursor is None else min(cursor, end)
    summary = _dumps(run_summary(run))
    if start == end and summary == known:
        return None
    return Delta(start, end, _text(run, start, end, summary), summary)


def _text(run: Run, start: int, end: int, summary: bytes) -> str:
    head: dict[str, Any] = {"type": "delta", "from": start, "to": end, "run": orjson.Fragment(summary)}
    head["log"], *fresh = _news(run, start, end)
    nothing: dict[str, list[Any]] = {"episodes": [], "annotated": [], "checkpoints": []}
    if start == end:
        return _dumps(head | {"points": {}} | nothing).decode()
    points = points_after(run, start, end)
    rows = _rows(run, start, end) if any(fresh) else nothing
    if any(len(part) > MANY_ROWS for part in rows.values()):
        return resync(end)
    if points is None and run.series_count > NARROW:
        return _dumps(head | {"points": {}, "more": True} | rows).decode()
    if points is None:
        return resync(end)
    return _dumps(head | {"points": points} | rows).decode()


def _news(run: Run, start: int, end: int) -> tuple[Any, ...]:
    """Return the id of the last line of the log, and whether episodes, annotations and checkpoints are new, by one query."""
    cursors: list[Any] = [run.pk, start, end]
    with connection.cursor() as database:
        database.execute(_NEWS, [run.pk, *cursors, *cursors, *cursors])
        news: tuple[Any, ...] = database.fetchone() or (0, False, False, False)
        return news


def _rows(run: Run, start: int, end: int) -> dict[str, list[Any]]:
    """Return rows of every kind in (start, end]; at most MANY_ROWS plus one."""
    new = {"run": run, "cursor__gt": start, "cursor__lte": end}
    most = MANY_ROWS + 1
    notes = EpisodeAnnotation.objects.filter(**new).order_by("cursor", "id")
    names = notes.values_list("episode_name", flat=True)[:most]
    annotated = (
        Episode.objects.filter(run=run, name__in=list(names)).order_by("id").values_list("id", flat=True)
    )
    return {
        "episodes": [
            {**row, "episode_return": spell(row["episode_return"])}
            for row in Episode.objects.filter(**new).order_by("cursor", "id").values(*_EPISODE)[:most]
        ],
        "annotated": list(annotated[:most]),
        "checkpoints": list(Checkpoint.objects.filter(**new).order_by("id").values(*_CHECKPOINT)[:most]),
    }


def text_for_visitors(text: str) -> str:
    """Return the text for visitors: without the log, users and other runs."""
    message = orjson.loads(text)
    if "run" in message:
        message |= {"log": 0, "run": summary_for_visitors(message["run"])}
    return _dumps(message).decode()


def _dumps(value: Any) -> bytes:
    return orjson.dumps(value, default=str, option=orjson.OPT_NON_STR_KEYS)
