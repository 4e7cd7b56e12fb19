"""Noting checkpoints that runs have written or removed."""

import logging
import math
from datetime import UTC, datetime
from typing import Any

from webapp.checkpoints.models import Checkpoint
from webapp.runs.models import Run
from workers.launch.events import CheckpointEvent

log = logging.getLogger(__name__)


def checkpoints_store(run: Run, cursor: int, events: list[CheckpointEvent]) -> None:
    """Note each; at most one is the best. Paths stay inside the run folder, or are not noted."""
    for event in events:
        if not is_inside(event.path):
            log.warning(
                "run %s: a checkpoint path that leads out of the run folder was not noted: %r",
                run.pk,
                event.path,
            )
            continue
        if event.best:
            Checkpoint.objects.filter(run=run, best=True).exclude(path=event.path).update(
                best=False, cursor=cursor
            )
        written = _facts(event)
        changed = {"removed": True} if event.removed else written
        Checkpoint.objects.update_or_create(
            run=run,
            path=event.path,
            defaults=changed | {"cursor": cursor},
            create_defaults=written | {"cursor": cursor},
        )


def _facts(event: CheckpointEvent) -> dict[str, Any]:
    """The columns. That one was removed tells nothing else: what was known of it stays."""
    return {
        "attempt": event.attempt,
        "iteration": event.iteration,
        "size": event.bytes,
        "metrics": {key: _json_number(value) for key, value in event.metrics.items()},
        "best": event.best,
        "removed": event.removed,
        "time": datetime.fromtimestamp(event.time, UTC),
    }


def is_inside(path: str) -> bool:
    """Whether a path is relative and stays below where it starts."""
    parts = path.split("/")
    return (
        bool(path)
        and "\\" not in path
        and "\x00" not in path
        and not any(part in ("", ".", "..") for part in parts)
    )


def _json_number(value: float | str) -> float | str:
    number = float(value)
    return number if math.isfinite(number) else str(value)
