"""Recording of checkpoints that runs have written or removed."""

import logging
import math
import re
from datetime import UTC, datetime
from typing import Any

from webapp.checkpoints.models import Checkpoint
from webapp.runs.lifecycle import event_send
from webapp.runs.models import LogLine, Run
from workers.telemetry.events import CheckpointEvent

log = logging.getLogger(__name__)
PATH = re.compile(r"[\w.-]+(/[\w.-]+)*", re.ASCII)
"""A checkpoint's path below its run folder."""
IN_EVENTS = ("path", "iteration", "size", "best", "metrics")
"""The facts of a checkpoint in its event."""


def checkpoints_store(run: Run, cursor: int, events: list[CheckpointEvent]) -> None:
    """Store each checkpoint; at most one is the best. Paths outside the run folder are rejected."""
    for event in events:
        if not is_inside(event.path):
            _refuse(run, cursor, event)
            continue
        if event.best:
            Checkpoint.objects.filter(run=run, best=True).exclude(path=event.path).update(
                best=False, cursor=cursor
            )
        written = _facts(event)
        changed = (
            {"removed": True} if event.removed else {"damaged": event.damaged} if event.damaged else written
        )
        checkpoint, created = Checkpoint.objects.update_or_create(
            run=run,
            path=event.path,
            defaults=changed | {"cursor": cursor},
            create_defaults=written | {"cursor": cursor},
        )
        if created and not checkpoint.removed:
            facts = {name: getattr(checkpoint, name) for name in IN_EVENTS}
            event_send("checkpoint.written", run, checkpoint=facts)


def _facts(event: CheckpointEvent) -> dict[str, Any]:
    """Return the columns to update. A removal event has no other facts: the stored ones stay."""
    return {
        "attempt": event.attempt,
        "iteration": event.iteration,
        "size": event.bytes,
        "metrics": {key: _json_number(value) for key, value in event.metrics.items()},
        "best": event.best,
        "removed": event.removed,
        "damaged": event.damaged,
        "time": datetime.fromtimestamp(event.time, UTC),
    }


def is_inside(path: str) -> bool:
    """Whether a path is relative, without parent references, and safe for headers and archives (plain names only)."""
    return PATH.fullmatch(path) is not None and not any(part in (".", "..") for part in path.split("/"))


def _refuse(run: Run, cursor: int, event: CheckpointEvent) -> None:
    """Report in the run's log that a checkpoint was not recorded."""
    log.warning("run %s: a checkpoint was not recorded, its path is %r", run.pk, event.path)
    LogLine.objects.create(
        run=run,
        attempt=event.attempt,
        cursor=cursor,
        time=datetime.fromtimestamp(event.time, UTC),
        level="warning",
        source="checkpoints",
        message=(
            f"the checkpoint {event.path!a} was not recorded: use a path below the run's folder, "
            "of letters, digits and . _ - in each name"
        ),
    )


def _json_number(value: float | str) -> float | str:
    number = float(value)
    return number if math.isfinite(number) else str(value)
