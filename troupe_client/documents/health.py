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
    critical_first: int | None = Field(
        description="First step at which it was critical; null if it never was."
    )
    critical_last: int | None = Field(description="Last step at which it was critical.")
    lasting: str = Field(
        description="Harm for which it stays open, although its value is below the threshold again."
    )
    figures: dict[str, int | float | str] = Field(description="Name -> number or text.")
    series: list[str] = Field(description="Metrics that show it.")
    cause: str
    remedy: str
    action: str = Field(description="Action of the rule when the finding was new.")
    done: str = Field(description="Result of that action.")
    fork: str | None = Field(description="The run that was forked for it.")
    episodes: str = Field(description="Query of the transcripts that show it; empty if none do.")
    edits: dict[str, Any] = Field(
        description="Changes of a fork to which nothing else is given; empty if the remedy is no setting."
    )
    dismissed_by: str | None
    created_at: datetime
    curves: str = Field(description="Path of the run's curves.")


class HealthRule(Document):
    """A health rule of a run: its value, its threshold, and how near it came to a finding."""

    columns: ClassVar = {"rule": "rule", "state": "state", "nearest": "nearest", "why": "why"}

    rule: str
    state: str = Field(
        description="critical or warning: it has an open finding; healthy; not counted; no value yet; does not apply."
    )
    why: str = Field(description="Why the value does not count, is missing, or will never exist.")
    measured: str = Field(description="What is measured, with its unit.")
    key: str = Field(description="The metric, or part of the run, with the largest value.")
    value: float | None = Field(description="At the last check.")
    threshold: float | None = Field(description="Of several conditions, that of the first.")
    fires_below: bool = Field(description="Whether there is a finding below the threshold, and not above it.")
    nearest: float | None = Field(
        description="The largest value so far, divided by the threshold: there is a finding above 1."
    )
    nearest_value: float | None = Field(description="That value.")
    nearest_step: int | None = Field(description="Its step.")
    nearest_key: str = Field(description="Its metric, or part of the run.")
    action: str = Field(description="none, notify, pause, stop or fork.")


class ForkedRun(RootModel[dict[str, Any]]):
    """The summary of a run."""


class FindingForkBody(Body):
    """The changes of a fork."""

    overrides: dict[str, Any] | None = Field(
        None, description="Dotted field paths to values; default: `edits` of the finding."
    )
