"""Noting checkpoints that runs have written or removed."""

import math
from datetime import UTC, datetime

from training_core.errors import TroupeError
from webapp.checkpoints.models import Checkpoint
from webapp.runs.models import Run
from workers.launch.events import CheckpointEvent


class CheckpointPathRefused(TroupeError):
    """A checkpoint's path leads out of the run folder."""


def checkpoints_store(run: Run, cursor: int, events: list[CheckpointEvent]) -> None:
    """Note each; at most one is the best. Paths stay inside the run folder, or are not noted."""
    for event in events:
        if not is_inside(event.path):
            continue
        if event.best:
            Checkpoint.objects.filter(run=run, best=True).update(best=False)
        Checkpoint.objects.update_or_create(
            run=run,
            path=event.path,
            defaults={
                "attempt": event.attempt,
                "cursor": cursor,
                "iteration": event.iteration,
                "size": event.bytes,
                "metrics": {key: _json_number(value) for key, value in event.metrics.items()},
                "best": event.best,
                "removed": event.removed,
                "time": datetime.fromtimestamp(event.time, UTC),
            },
        )


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
