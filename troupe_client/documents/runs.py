"""Runs: one experiment under one config; its log, notes, marks and cost; tables of runs, families and saved views."""

from datetime import datetime
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, StringConstraints

from troupe_client.documents.base import Body, Document, Results

State = Literal[
    "draft", "queued", "starting", "running", "stopping", "paused", "finished", "stopped", "failed"
]


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


class RunRow(RunSummary):
    """A run of a list, with the requested columns of the table of runs."""

    cells: dict[str, Any] = Field({}, alias="columns", description="Value of each column that was requested.")
    changes: dict[str, float | None] = Field(
        {}, description="Change of each metric among them since its first value."
    )


class RunDetail(RunSummary):
    """A run with its config and what its driver reported."""

    config: dict[str, Any] = Field(description="The complete resolved config.")
    facts: dict[str, Any] = Field(description="Reported by the driver, such as packages and base models.")
    headline_names: list[str] = Field(description="Names of its headline metrics, the most important first.")
    values_dropped: int = Field(
        description="Values of metrics that were not stored because the run has too many metrics."
    )


class LogLine(Document):
    """A line of a run's log."""

    id: int
    attempt: int
    time: datetime
    level: str
    source: str = Field(description="Worker, or server.")
    message: str


class RunMark(Document):
    """An event of a run that is marked on its curves."""

    columns: ClassVar = {"step": "step", "kind": "kind", "title": "title", "detail": "detail"}

    kind: str = Field(description="checkpoint, attempt, edit, finding or note.")
    step: int | None = Field(description="Null for a note on the whole run.")
    time: float = Field(description="Seconds since the epoch.")
    title: str
    detail: str
    link: str = Field(description="Path of its page.")
    number: int = Field(description="Id of the note, finding or checkpoint; number of the attempt.")
    strong: bool = Field(False, description="The best checkpoint, or a critical finding.")


class RunMarks(Results[RunMark]):
    """The marks of a run, by step."""

    cursor: int = Field(description="Number of stored events.")


class AttemptCost(Document):
    """The part of an attempt."""

    number: int
    seconds: float
    tokens: int


class RunCost(Document):
    """Seconds, device hours and sampled training tokens of a run. Devices are null for runs that the server does not launch."""

    waited: float = Field(description="Seconds from its launch to its first start, or until now.")
    seconds: float = Field(description="Total of all attempts, from start to end.")
    gpus: float | None
    cpus: float | None = Field(
        description="Devices held while it runs: its part if its process trains several runs."
    )
    shared_by: int = Field(description="Number of runs in the process of its last attempt.")
    shift: float = Field(
        description="Seconds to add to `seconds` for hours of these devices, because earlier attempts held another part of them."
    )
    gpu_hours: float | None
    cpu_hours: float | None
    tokens: int
    tokens_again: int = Field(description="Of these, tokens of iterations repeated by a later attempt.")
    eta_seconds: float | None = Field(
        description="Remaining at the pace of the current attempt; null if it is not active."
    )
    expected_gpu_hours: float | None
    expected_cpu_hours: float | None = Field(description="Estimate at its end; null without an estimate.")
    attempts: list[AttemptCost]


class RunNote(Document):
    """A note on a run."""

    columns: ClassVar = {"note": "id", "step": "step", "author": "author", "text": "text"}

    id: int
    step: int | None = Field(description="Null for a note on the whole run.")
    text: str
    author: str | None = Field(description="Null for a deleted user.")
    created_at: datetime


NoteText = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=4000)]


class RunNoteChangeBody(Body):
    """The new text of a note."""

    text: NoteText


class RunNoteBody(RunNoteChangeBody):
    """A note on a run."""

    step: int | None = Field(None, ge=0, le=10**17, description="Iteration; default: the whole run.")


class BulkBody(Body):
    """One action on many runs."""

    runs: list[str] = Field(description="Ids.")
    act: str = Field(description="stop, pause, resume, archive, unarchive, tag, untag or priority.")
    value: str | int = Field("", description="The tag, or the priority.")


class BulkResult(Document):
    """What an action did to one run."""

    columns: ClassVar = {"run": "id", "ok": "ok", "detail": "detail"}

    id: str
    ok: bool
    detail: str = Field(description="Why it was refused.")


class RunFamily(Document):
    """Runs that differ only in their seed: number, mean and standard deviation of each headline metric."""

    family: str
    runs: int
    name: str
    since: datetime = Field(description="Creation of the first run.")
    until: datetime = Field(description="Creation of the last run.")
    eval_success_n: int = Field(description="Number of runs with the metric.")
    eval_success_mean: float | None
    eval_success_sd: float | None = Field(description="Of the sample; null for one run.")
    eval_sampled_success_n: int
    eval_sampled_success_mean: float | None
    eval_sampled_success_sd: float | None
    train_return_n: int
    train_return_mean: float | None
    train_return_sd: float | None
    eval_return_n: int
    eval_return_mean: float | None
    eval_return_sd: float | None


class FilterOption(Document):
    """A completion."""

    text: str
    note: str


class FilterCompletion(Document):
    """Completions of a filter, or of the name of a column."""

    start: int = Field(description="An option replaces the text from here on.")
    options: list[FilterOption]


class ViewLinks(Document):
    """Addresses of a view."""

    page: str


class SavedView(Document):
    """A named configuration of the table of runs."""

    columns: ClassVar = {
        "view": "id",
        "name": "name",
        "of": "project",
        "default": "default",
        "shows": "query",
    }

    id: int
    name: str
    project: str | None = Field(description="Slug of the project that shares it; null for a user's own view.")
    owner: str
    query: dict[str, str] = Field(
        description="Parameters of the table: filter, sort, columns, group and others."
    )
    default: bool = Field(description="Whether the table opens with it.")
    created_at: datetime
    links: ViewLinks


class SavedViewDeleted(SavedView):
    """A view that was deleted."""

    deleted: bool = True


class ViewBody(Body):
    """A view to save."""

    name: str = ""
    query: dict[str, Any] = Field(
        {}, description="Parameters of the table: filter, sort, columns, group and others."
    )
    project: str = Field("", description="Slug of the project that shares it; empty: a view of the caller.")
    replace: bool = Field(False, description="Replace a view with this name.")


class ViewChangeBody(Body):
    """Changes of a view."""

    name: str = Field("", description="New name; empty: unchanged.")
    default: bool | None = Field(None, description="Whether the table opens with it; null: unchanged.")
