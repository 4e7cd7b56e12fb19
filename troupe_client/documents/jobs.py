"""Short jobs: checks, dry runs, evaluations, conversations, matches, the worth of messages, preparation of base models."""

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import Field

from troupe_client.documents.base import Body, Document

JobKind = Literal["check", "dry_run", "evaluate", "talk", "match", "prepare", "worth", "what_if"]


class JobCheckpoint(Document):
    """A checkpoint of a job."""

    run: str
    path: str
    iteration: int


class Job(Document):
    """A short job."""

    id: str
    kind: str
    state: str = Field(description="queued, running, finished, failed or cancelled.")
    progress: float = Field(description="From 0 to 1.")
    message: str = Field(description="The current activity, or the reason of a failure.")
    project: str = Field(description="Slug of the project.")
    owner: str
    run: str | None
    checkpoint: JobCheckpoint | None = Field(description="Null for the base models.")
    other: JobCheckpoint | None = Field(description="The second checkpoint of a match.")
    parameters: dict[str, Any]
    return_label: str = Field(description="Name of the return in `result`.")
    result: dict[str, Any] = Field(description="Metrics, checks or models; empty before the end.")
    created_at: datetime
    started_at: datetime | None
    ended_at: datetime | None
    url: str = Field(description="Path of its page.")


class JobDetail(Job):
    """A short job with its episodes."""

    episodes: list[dict[str, Any]]
    moment: dict[str, Any] | None = Field(
        description="Current state of a conversation: moves, and what is asked."
    )


class JobBody(Body):
    """A short job to start; the fields that matter depend on its kind."""

    kind: JobKind
    project: str = Field("", description="check, dry_run, prepare: slug; default: your oldest project.")
    preset: str = Field("", description="check, dry_run, prepare: name of a preset.")
    config: dict[str, Any] | None = Field(
        None, description="check, dry_run, prepare: a config in place of a preset."
    )
    run: str = Field("", description="Run of the checkpoint.")
    checkpoint: str = Field(
        "",
        description="Path, name, iteration, last, best, or base for the base models; default: last.",
    )
    other_run: str = Field("", description="match: run of the second checkpoint; default: the same run.")
    other: str = Field("", description="match: the second checkpoint.")
    overrides: dict[str, Any] = Field({}, description="Config fields by dotted path.")
    parameters: dict[str, Any] = Field(
        {},
        description="episodes, kind, first, swapped, roles, task; of worth also episode, alternatives, continuations, outcome, "
        "discount, max_tokens; of what_if episode, turn, text.",
    )


class SayBody(Body):
    """A user's message in a conversation."""

    turn: Annotated[int, Field(ge=0, description="Number of the turn that is asked.")]
    text: str
