"""Events of a run that are marked on its curves."""

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime

from django.urls import reverse

from troupe_client.documents.runs import RunMark
from webapp.accounts.permissions import Person, Visitor
from webapp.checkpoints.models import Checkpoint
from webapp.checkpoints.services import checkpoints_list
from webapp.common.formats import figure
from webapp.health.models import Finding
from webapp.runs.costs import first_iteration
from webapp.runs.models import Run, RunNote
from webapp.runs.notes import run_notes_list
from webapp.runs.selectors import attempts_of

KINDS = {
    "checkpoint": "Checkpoints",
    "attempt": "Attempts",
    "edit": "Config edits",
    "finding": "Findings",
    "note": "Notes",
}
"""Kinds of marks with their plural labels."""
LONGEST = 200
"""Maximum characters of a title."""


def marks_list(
    run: Run,
    checkpoints: Sequence[Checkpoint] | None = None,
    notes: Sequence[RunNote] | None = None,
    findings: Sequence[Finding] | None = None,
) -> list[RunMark]:
    """Return stored checkpoints, attempts after the first, edits of the config, findings, notes; by step, then time.

    checkpoints, notes, findings: those of the run, if the page has read them.
    """
    stored = checkpoints_list(run) if checkpoints is None else checkpoints
    written = run_notes_list(run) if notes is None else notes
    met = Finding.objects.filter(run=run) if findings is None else findings
    rows = [row for row in stored if not row.removed]
    marks = [*_checkpoints(run, rows), *_attempts(run), *_findings(run, met), *_notes(run, written)]
    return sorted(marks, key=lambda mark: (mark.step is None, mark.step or 0, mark.time))


def marks_shown(
    user: Person,
    run: Run,
    checkpoints: Sequence[Checkpoint] | None = None,
    notes: Sequence[RunNote] | None = None,
    findings: Sequence[Finding] | None = None,
) -> list[RunMark]:
    """Return the marks visible to this user: visitors see checkpoints and attempts, without their pages."""
    marks = marks_list(run, checkpoints, notes, findings)
    if isinstance(user, Visitor):
        return [
            mark.model_copy(update={"link": ""}) for mark in marks if mark.kind in ("checkpoint", "attempt")
        ]
    return marks


def _checkpoints(run: Run, rows: Iterable[Checkpoint]) -> Iterator[RunMark]:
    link = reverse("runs:checkpoints", args=[run.pk])
    for row in rows:
        metrics = ", ".join(f"{key} {figure(value, key)}" for key, value in row.metrics.items())
        title = "best checkpoint" if row.best else "checkpoint"
        yield RunMark(
            kind="checkpoint",
            step=row.iteration,
            time=_seconds(row.time),
            title=title,
            detail=metrics,
            link=link,
            number=row.pk,
            strong=row.best,
        )


def _attempts(run: Run) -> Iterator[RunMark]:
    link = reverse("runs:logs", args=[run.pk])
    for attempt in attempts_of(run):
        step, time = first_iteration(run, attempt), _seconds(attempt.started_at or attempt.created_at)
        if attempt.number > 1:
            since = attempt.resumed_from or (attempt.resumed_iteration and f"step {step}")
            origin = f"resumed from {since}" if since else "from the start"
            yield RunMark(
                kind="attempt",
                step=step,
                time=time,
                title=f"attempt {attempt.number}",
                detail=origin,
                link=link,
                number=attempt.number,
            )
        if attempt.changes:
            changes = ", ".join(f"{path} = {value}" for path, value in attempt.changes.items())
            address = reverse("runs:config", args=[run.pk])
            yield RunMark(
                kind="edit",
                step=step,
                time=time,
                title="config edited",
                detail=changes,
                link=address,
                number=attempt.number,
            )


def _findings(run: Run, findings: Iterable[Finding]) -> Iterator[RunMark]:
    page = reverse("health:page", args=[run.pk])
    for row in findings:
        if row.state == Finding.State.DISMISSED:
            continue
        critical = row.severity == Finding.Severity.CRITICAL
        address, time = f"{page}#finding-{row.pk}", _seconds(row.created_at)
        yield RunMark(
            kind="finding",
            step=row.first_step,
            time=time,
            title=row.title[:LONGEST],
            detail=row.state,
            link=address,
            number=row.pk,
            strong=critical,
        )


def _notes(run: Run, notes: Iterable[RunNote]) -> Iterator[RunMark]:
    page = reverse("runs:detail", args=[run.pk])
    for note in notes:
        author = note.author.username if note.author else "a deleted user"
        time, address = _seconds(note.created_at), f"{page}#note-{note.pk}"
        yield RunMark(
            kind="note",
            step=note.step,
            time=time,
            title=note.text[:LONGEST],
            detail=author,
            link=address,
            number=note.pk,
        )


def _seconds(moment: datetime) -> float:
    return moment.timestamp()
