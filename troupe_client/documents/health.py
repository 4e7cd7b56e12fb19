"""Findings of the health rules."""

from datetime import datetime
from typing import Any, ClassVar

from pydantic import Field, RootModel

from troupe_client.documents.base import Body, Document


class Finding(Document):
    """A problem that a rule detected in a run."""

    columns: ClassVar = {"finding": "id", "state": "state", "title": "title"}

    id: int
    rule: str
    key: str = Field(description="The affected metric, or part of the run.")
    state: str = Field(description="open, resolved or dismissed.")
    severity: str = Field(description="critical or warning.")
    title: str
    first_step: int
    last_step: int
    figures: dict[str, int | float | str] = Field(description="Name -> number or text.")
    series: list[str] = Field(description="Metrics that show it.")
    cause: str
    remedy: str
    action: str = Field(description="Action of the rule when the finding was new.")
    done: str = Field(description="Result of that action.")
    fork: str | None = Field(description="The run that was forked for it.")
    dismissed_by: str | None
    created_at: datetime
    curves: str = Field(description="Path of the run's curves.")


class ForkedRun(RootModel[dict[str, Any]]):
    """The summary of a run."""


class FindingForkBody(Body):
    """The changes of a fork."""

    overrides: dict[str, Any] | None = Field(
        None, description="Dotted field paths to values; default: the edits of the finding's rule."
    )
