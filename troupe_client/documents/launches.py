"""Requests that launch, end, resume and fork runs."""

import re
from typing import Annotated, Any, Self

from pydantic import ConfigDict, Field, StringConstraints, model_validator

from troupe_client.documents.base import Body, Document
from troupe_client.documents.descriptions import (
    LARGEST_STEP,
    MAX_NAME,
    MAX_NOTES,
    MAX_TAGS,
    MAX_TEAM,
    MAX_WORD,
)
from troupe_client.documents.runs import RunSummary

Overrides = Annotated[
    dict[str, Any], Field(description="Dotted field paths of the config to values, e.g. run.seed.")
]
Provenance = Annotated[
    dict[str, Any], Field(description="Command, machine and repositories of the launching program.")
]
Name = Annotated[str, StringConstraints(strip_whitespace=True, max_length=MAX_NAME)]
Tag = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=MAX_WORD)]
Tags = Annotated[list[Tag], Field(max_length=MAX_TAGS)]


class ConfigBody(Body):
    """A config: a preset with overrides, or a complete tree."""

    preset: str = Field("", max_length=80, description="Name of a preset.")
    overrides: Overrides = {}
    config: dict[str, Any] | None = Field(None, description="A complete config tree, instead of a preset.")

    @model_validator(mode="after")
    def _one_config(self) -> Self:
        if bool(self.preset) == (self.config is not None):
            raise ValueError("preset: give either preset (with overrides) or config")
        return self


class LaunchBody(ConfigBody):
    """A run to launch."""

    name: Name = ""
    project: str = Field(
        "",
        max_length=60,
        pattern="^[-a-zA-Z0-9_]*$",
        description="Slug; default: the caller's oldest project.",
    )
    tags: Tags = []
    provenance: Provenance = {}


class StopBody(Body):
    """How to end a run; other fields are ignored."""

    model_config = ConfigDict(extra="ignore")
    now: bool = Field(False, description="Do not wait for the current iteration: its work is lost.")


class ResumeBody(Body):
    """How to resume a run."""

    overrides: Overrides = Field(
        {}, description="Dotted field paths of the config to their new values, from here on."
    )
    checkpoint: str = Field("", max_length=40, description="last, best, or an iteration; default: last.")


class ForkBody(Body):
    """A run that starts from a checkpoint."""

    overrides: Overrides = {}
    name: Name = ""
    tags: Tags = []
    provenance: Provenance = {}


class RunActResult(Document):
    """What became of an action on one of many runs."""

    id: str
    ok: bool
    detail: str = Field(description="Why the run was not changed.")


class ClientRunBody(Body):
    """A run of a custom program, which trains itself."""

    id: str = Field(
        pattern="^[abcdefghjkmnpqrstuvwxyz23456789]{8,12}$",
        description="Chosen by the program, so that a repeated request creates one run.",
    )
    project: str = Field("", description="Slug; default: the caller's oldest project.")
    name: Name = ""
    group: str = Field("", max_length=MAX_WORD, description="Becomes a tag, `group:NAME`.")
    tags: list[str] = Field([], max_length=MAX_TAGS)
    notes: str = Field("", max_length=MAX_NOTES)
    config: dict[str, Any] = Field({}, description="Arbitrary; shown and searchable under `client`.")
    resolved: dict[str, Any] | None = Field(
        None,
        description="The complete config of an imported run, in place of one that is made of these fields.",
    )
    team: dict[str, str] = Field({}, max_length=MAX_TEAM, description="Role to policy.")
    algorithm: str = Field("external", max_length=MAX_WORD)
    environment: str = Field("external", max_length=MAX_WORD)
    role: str = Field(
        "",
        max_length=60,
        description="The program's part, if several programs report to one run; empty: the main program.",
    )
    steps: int = Field(0, ge=0, le=LARGEST_STEP, description="Total steps, for progress; 0: unknown.")
    headline: list[str] = Field(
        [], description="Metrics that the overview shows first; empty: by their names."
    )
    resume: str = Field("never", pattern="^(allow|must|never)$")
    first_step: int | None = Field(
        None,
        ge=0,
        le=LARGEST_STEP,
        description="First step of a program that resumes earlier than after the last step.",
    )
    provenance: dict[str, Any] = Field({}, description="Command, machine and repositories of the program.")
    nonce: str = Field(
        "",
        max_length=40,
        description="Identifies one call of init: a repeated request returns the same attempt, and adds to its config.",
    )


class ClientRunBegun(Document):
    """A run of a custom program; its events are posted to the run's `events` link, with the same token."""

    run: RunSummary
    attempt: int = Field(description="Number of the attempt.")
    step: int = Field(description="Next step.")


_NUMBER = re.compile(r"-?(0|[1-9]\d{0,14})(\.\d{1,17})?(e[+-]?\d{1,2})?")
_WORDS = {"True": True, "False": False, "true": True, "false": False, "None": None}


def typed(text: str) -> Any:
    """Return the number, truth value or null that the text of a setting states, for trackers that store texts only; else the text."""
    if text in _WORDS:
        return _WORDS[text]
    number = _NUMBER.fullmatch(text)
    if number is None:
        return text
    return float(text) if number[2] or number[3] else int(text)
