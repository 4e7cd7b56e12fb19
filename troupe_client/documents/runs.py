"""Runs: one experiment under one config."""

from datetime import datetime
from typing import Any

from pydantic import Field

from troupe_client.documents.base import Document


class RunAttempt(Document):
    """A launch of a run."""

    number: int
    state: str
    ended_as: str = Field(description="finished, stopped, paused, failed or lost.")
    reason: str
    resumed_from: str = Field(description="Path of the checkpoint from which it continued.")
    shared_by: int = Field(description="Number of runs in its process.")
    created_at: datetime
    started_at: datetime | None
    ended_at: datetime | None


class RunSummary(Document):
    """A run without its config."""

    id: str
    name: str
    state: str
    reason: str
    remedy: str
    stop_requested: str = Field(description="stop, pause or nothing.")
    stop_requested_at: datetime | None
    end_requested_at: datetime | None
    project: str = Field(description="Slug of the project.")
    owner: str
    preset: str
    source: str
    tags: list[str]
    priority: int
    archived: bool
    family: str = Field(description="Equal for runs that differ in their seed only.")
    return_label: str
    parent: str | None = Field(description="Run from which it was forked.")
    parent_checkpoint: str
    iteration: int
    iterations: int
    progress: float = Field(description="From 0 to 1.")
    eta_seconds: float | None
    headline: dict[str, Any] = Field(description="Headline metrics.")
    findings: dict[str, int] = Field(description="Number of findings by severity.")
    media: int
    cursor: int = Field(description="Number of stored events.")
    created_at: datetime
    started_at: datetime | None
    ended_at: datetime | None
    attempts: list[RunAttempt]
    links: dict[str, str] = Field(description="Paths of the run's page and of its parts in the API.")
