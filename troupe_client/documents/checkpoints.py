"""Checkpoints of runs, and the lineage of forks."""

from datetime import datetime
from typing import Any, ClassVar

from pydantic import Field

from troupe_client.documents.base import Body, Document

MOST_KEPT = 10_000


class Checkpoint(Document):
    """A checkpoint."""

    columns: ClassVar = {
        "iteration": "iteration",
        "bytes": "size",
        "best": "best",
        "pinned": "pinned",
        "damaged": "damaged",
        "removed": "removed",
    }

    id: int
    run: str
    attempt: int
    iteration: int
    path: str = Field(description="Relative to the run folder.")
    size: int = Field(description="Bytes.")
    metrics: dict[str, Any]
    best: bool
    pinned: bool = Field(description="Whether it is exempt from retention.")
    removed: bool = Field(description="Whether retention or a user deleted its files.")
    damaged: str = Field(description="Error in its files; empty if none is known.")
    time: datetime


class CheckpointUnavailable(Document):
    """Why a checkpoint cannot be downloaded: it was removed, or its files are missing."""

    detail: str


class CheckpointsPruned(Document):
    """What a deletion of old checkpoints deleted, or would delete."""

    deleted: list[int] = Field(description="Iterations.")
    kept: list[int] = Field(description="Iterations.")
    bytes: int = Field(description="Size of the deleted checkpoints.")


class Lineage(Document):
    """A run with its forks."""

    id: str
    name: str
    state: str
    forked_at: int | None = Field(description="Iteration of the fork; null for a run that is none.")
    finding: str | None = Field(description="Health rule that suggested the fork.")
    success: float | str | None
    return_: float | str | None = Field(alias="return")
    here: bool = Field(description="Whether it is the run that was asked for.")
    page: str = Field(description="Path of its page.")
    forks: list["Lineage"]


class CheckpointsPruneBody(Body):
    """The number of checkpoints to keep; the others are deleted."""

    last: int = Field(ge=0, le=MOST_KEPT)
    best: int = Field(1, ge=0, le=MOST_KEPT)
    dry: bool = Field(False, description="Only report the checkpoints to delete.")
