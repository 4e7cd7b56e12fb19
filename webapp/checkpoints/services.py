"""Checkpoints of runs: recording, reading, damage, pins, deletion and retention. Drivers respect pins too."""

import logging
import math
import re
from collections.abc import Collection, Iterable
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from django.conf import settings
from django.db import transaction
from django.db.models import Q
from django.http import Http404

from training_core.errors import CheckpointError, ConfigError
from troupe_client.documents import checkpoints as documents
from webapp.accounts.audit import audit_note
from webapp.accounts.permissions import Person, require_edit
from webapp.checkpoints.models import Checkpoint
from webapp.runs.lifecycle import event_send
from webapp.runs.models import ACTIVE_STATES, Attempt, LogLine, Run, RunState
from webapp.runs.selectors import run_get, runs_visible
from webapp.runs.states import TransitionRefused
from workers.storage.checkpoint_files import (
    FilesGone,
    checkpoint_damage,
    checkpoint_place,
    delete,
    pin,
    set_aside,
    unpin,
)
from workers.telemetry.events import CheckpointEvent

log = logging.getLogger(__name__)
PATH = re.compile(r"[\w.-]+(/[\w.-]+)*", re.ASCII)
"""A checkpoint's path below its run folder."""
IN_EVENTS = ("path", "iteration", "size", "best", "metrics")
"""The facts of a checkpoint in its event."""


def checkpoints_store(run: Run, cursor: int, events: list[CheckpointEvent]) -> None:
    """Store each checkpoint; at most one is the best. Paths outside the run folder are rejected."""
    for event in events:
        if not is_inside(event.path):
            _refuse(run, cursor, event)
            continue
        if event.best:
            Checkpoint.objects.filter(run=run, best=True).exclude(path=event.path).update(
                best=False, cursor=cursor
            )
        written = _facts(event)
        changed = (
            {"removed": True} if event.removed else {"damaged": event.damaged} if event.damaged else written
        )
        checkpoint, created = Checkpoint.objects.update_or_create(
            run=run,
            path=event.path,
            defaults=changed | {"cursor": cursor},
            create_defaults=written | {"cursor": cursor},
        )
        if created and not checkpoint.removed:
            facts = {name: getattr(checkpoint, name) for name in IN_EVENTS}
            event_send("checkpoint.written", run, checkpoint=facts)


def _facts(event: CheckpointEvent) -> dict[str, Any]:
    """Return the columns to update. A removal event has no other facts: the stored ones stay."""
    return {
        "attempt": event.attempt,
        "iteration": event.iteration,
        "size": event.bytes,
        "metrics": {key: _json_number(value) for key, value in event.metrics.items()},
        "best": event.best,
        "removed": event.removed,
        "damaged": event.damaged,
        "time": datetime.fromtimestamp(event.time, UTC),
    }


def is_inside(path: str) -> bool:
    """Whether a path is relative, without parent references, and safe for headers and archives (plain names only)."""
    return PATH.fullmatch(path) is not None and not any(part in (".", "..") for part in path.split("/"))


def _refuse(run: Run, cursor: int, event: CheckpointEvent) -> None:
    """Report in the run's log that a checkpoint was not recorded."""
    log.warning("run %s: a checkpoint was not recorded, its path is %r", run.pk, event.path)
    LogLine.objects.create(
        run=run,
        attempt=event.attempt,
        cursor=cursor,
        time=datetime.fromtimestamp(event.time, UTC),
        level="warning",
        source="checkpoints",
        message=(
            f"the checkpoint {event.path!a} was not recorded: use a path below the run's folder, "
            "of letters, digits and . _ - in each name"
        ),
    )


def _json_number(value: float | str) -> float | str:
    number = float(value)
    return number if math.isfinite(number) else str(value)


RIVALS = 50
FIGURES = ("eval/success", "eval/return", "eval_sampled/success", "train/return")


def checkpoints_list(run: Run) -> list[Checkpoint]:
    """Return the checkpoints newest first, including removed ones."""
    return list(Checkpoint.objects.filter(run=run).order_by("-iteration", "-pk"))


def checkpoint_document(row: Checkpoint) -> documents.Checkpoint:
    """Return the document of a checkpoint."""
    facts = {name: getattr(row, name) for name in documents.Checkpoint.model_fields if name != "run"}
    return documents.Checkpoint(run=row.run_id, **facts)


def checkpoint_figures(checkpoints: Iterable[Checkpoint], best_of: str) -> list[str]:
    """Return the metrics of a table: the one that selects the best, then those of FIGURES that some checkpoint has."""
    reported = {key for row in checkpoints for key in row.metrics}
    return [best_of, *(key for key in FIGURES if key in reported and key != best_of)]


def checkpoint_latest(run: Run, without: Collection[int] = ()) -> Checkpoint | None:
    """Return the checkpoint to resume from: the newest that is not damaged, and not one of `without` (primary keys).

    If an attempt resumed from an earlier one, later checkpoints of the attempts before it are ignored.
    """
    there = Checkpoint.objects.filter(run=run, removed=False, damaged="").exclude(pk__in=without)
    resumed = run.attempts.exclude(resumed_from="").order_by("-number").first()
    if resumed is not None:
        before = Q(iteration__lte=resumed.resumed_iteration)
        there = there.filter(Q(attempt__gte=resumed.number) | before)
    return there.order_by("-iteration", "-pk").first()


def checkpoint_to_resume(checkpoints: Iterable[Checkpoint], attempts: Iterable[Attempt]) -> Checkpoint | None:
    """Return `checkpoint_latest` of checkpoints, newest first, and attempts that are already read."""
    resumed = max((row for row in attempts if row.resumed_from), key=lambda row: row.number, default=None)
    for row in checkpoints:
        follows = resumed is None or row.attempt >= resumed.number
        before = resumed is not None and row.iteration <= resumed.resumed_iteration
        if not (row.removed or row.damaged) and (follows or before):
            return row
    return None


def checkpoint_rivals(user: Person) -> list[Run]:
    """Return the latest runs with a checkpoint, as opponents for another run."""
    there = Checkpoint.objects.filter(removed=False, damaged="").values("run")
    return list(runs_visible(user).filter(pk__in=there).order_by("-created_at")[:RIVALS])


def checkpoint_get(user: Person, pk: int) -> Checkpoint:
    """Return a checkpoint by its primary key. Raises Http404, also for projects that are not visible to the user."""
    checkpoint = (
        Checkpoint.objects.filter(pk=pk, run__in=runs_visible(user))
        .select_related("run__project")
        .defer("run__facts")
        .first()
    )
    if checkpoint is None:
        raise Http404("there is no such checkpoint that is visible to you")
    return checkpoint


def checkpoint_named(user: Person, run_id: str, name: str, without: Collection[int] = ()) -> Checkpoint:
    """Return a checkpoint of a run: `last`, `best`, an iteration (20) or a folder (iteration-000020). Raises Http404, ConfigError.

    `last` is the one to resume from, except those in `without`.
    """
    run = run_get(user, run_id)
    there = (
        Checkpoint.objects.filter(run=run)
        .select_related("run__project")
        .defer("run__facts")
        .order_by("removed", "-iteration", "-pk")
    )
    number = name.removeprefix("iteration-")
    if name == "last":
        checkpoint = checkpoint_latest(run, without)
    elif name == "best":
        checkpoint = there.filter(removed=False, best=True).first()
    elif number.isascii() and number.isdigit() and len(number) <= 12:
        checkpoint = there.filter(iteration=min(int(number), 2**31 - 1)).first()
    else:
        raise ConfigError(
            {"checkpoint": f"{name[:40]!r} is not a checkpoint; use last, best or an iteration"}
        )
    if checkpoint is None:
        raise Http404(f"run {run.pk} has no checkpoint {name}")
    return checkpoint


LONGEST = 2000
"""Maximum stored characters of the error."""


class CheckpointGone(TransitionRefused):
    """The files of a checkpoint were deleted before this was reported: a new lookup finds another checkpoint."""


def damage_look(checkpoint: Checkpoint) -> str:
    """Return the damage of a checkpoint, empty if none is known, and store it in the row.

    If the run folder is on this machine, sizes are compared, and hashes too if the checkpoint is marked as damaged:
    restored files clear the mark. Otherwise the result is the driver's last report. Raises FilesGone.
    """
    folder = settings.TROUPE_HOME / "runs" / checkpoint.run_id
    damage = checkpoint_damage(folder, checkpoint.path, contents=bool(checkpoint.damaged))
    if damage is not None and damage != checkpoint.damaged:
        damage_note(checkpoint.run, checkpoint.path, damage)
        checkpoint.damaged = damage[:LONGEST]
    return checkpoint.damaged


def damage_note(run: Run, path: str, damage: str) -> None:
    """Mark a checkpoint as damaged, or (empty) as intact."""
    Checkpoint.objects.filter(run=run, path=path).update(damaged=damage[:LONGEST])


def require_whole(checkpoint: Checkpoint) -> None:
    """Raises TransitionRefused if a checkpoint was removed or is damaged."""
    if checkpoint.removed:
        raise CheckpointGone(f"{checkpoint_words(checkpoint)} was removed; choose another one")
    try:
        damage = damage_look(checkpoint)
    except FilesGone as error:
        raise CheckpointGone(str(error)) from error
    if damage:
        raise TransitionRefused(f"{checkpoint_words(checkpoint)} is damaged: {damage}; choose another one")


def checkpoint_words(checkpoint: Checkpoint) -> str:
    """Return the checkpoint's name in messages."""
    return f"the checkpoint of iteration {checkpoint.iteration} of run {checkpoint.run_id}"


ACTS = ("pin", "unpin", "delete")


@transaction.atomic
def checkpoint_do(user: Person, checkpoint: Checkpoint, act: str) -> Checkpoint:
    """Apply pin, unpin or delete. Raises PermissionDenied, TransitionRefused, ConfigError (act)."""
    if act not in ACTS:
        raise ConfigError({"act": f"unknown act {act[:40]!r}; acts are {', '.join(ACTS)}"})
    held = _locked(user, checkpoint)
    if held.removed:
        raise TransitionRefused(f"the checkpoint {held.path} is already removed")
    if act == "delete":
        _delete(held)
    else:
        held.pinned = act == "pin"
        held.save(update_fields=["pinned"])
        checkpoint_hold(held)
    audit_note(user, held.run.project, f"checkpoint.{act}", f"{held.run_id}/{held.path}")
    return held


@transaction.atomic
def checkpoints_prune(
    user: Person, run: Run, wanted: documents.CheckpointsPruneBody
) -> documents.CheckpointsPruned:
    """Delete all but the newest and the best; pinned ones, forked ones and those in use stay too, damaged ones do not.

    Raises PermissionDenied, TransitionRefused.
    """
    rows = list(run.checkpoints.filter(removed=False).order_by("-iteration", "-pk"))
    whole = [row for row in rows if not row.damaged]
    spared = {row.pk for row in [*whole[: wanted.last], *_by_value(run, whole)[: wanted.best]]}
    going = []
    for row in rows:
        if row.pk not in spared:
            held = _locked(user, row)
            if not why_kept(held):
                going.append(held)
    iterations = [row.iteration for row in going]
    if going and not wanted.dry:
        for row in going:
            _delete(row)
        audit_note(
            user, run.project, "checkpoint.prune", run.pk,
            last=wanted.last, best=wanted.best, deleted=iterations,
        )  # fmt: skip
    retained = [row.iteration for row in rows if row.iteration not in iterations]
    size = sum(row.size for row in going)
    return documents.CheckpointsPruned(deleted=iterations, kept=retained, bytes=size)


def why_kept(checkpoint: Checkpoint) -> str:
    """Return the reason against deletion; empty if there is none."""
    if checkpoint.pinned:
        return "it is pinned; unpin it first"
    if checkpoint.jobs.filter(state__in=("queued", "running")).exists():
        return "a short job uses it"
    run = checkpoint.run
    if _is_useless(checkpoint):
        return ""
    fork = Run.objects.filter(parent=checkpoint.run_id, parent_checkpoint=checkpoint.path).first()
    if fork is not None:
        return f"run {fork.pk} was forked from it"
    version = checkpoint.artifact_versions.filter(removed=False).first()
    if version is not None:
        return f"it is the artifact {version}; delete that version first"
    if _is_resumed_from(run, checkpoint):
        return f"it is the last checkpoint of a run that is {run.state} and would resume from it"
    if run.state in ACTIVE_STATES and checkpoint.best:
        return "it is the best checkpoint of an active run"
    return ""


def _is_useless(checkpoint: Checkpoint) -> bool:
    """Whether nothing can start from it: it is damaged, or its files are missing. For an active run only its reports count."""
    if checkpoint.damaged or checkpoint.run.state in ACTIVE_STATES:
        return bool(checkpoint.damaged)
    try:
        return bool(damage_look(checkpoint))
    except FilesGone:
        return True


def _is_resumed_from(run: Run, checkpoint: Checkpoint) -> bool:
    """Whether the next attempt, or an active one, starts from it."""
    if checkpoint.path == run.resume_from and run.state in ACTIVE_STATES:
        return True
    if run.attempts.filter(resumed_from=checkpoint.path).exclude(state=Attempt.State.ENDED).exists():
        return True
    return run.state != RunState.FINISHED and checkpoint_latest(run) == checkpoint


def checkpoint_hold(checkpoint: Checkpoint) -> None:
    """Mark on disk, for the driver's retention, whether the checkpoint must stay. Raises TransitionRefused."""
    held = (
        checkpoint.pinned
        or checkpoint.run.forks.filter(parent_checkpoint=checkpoint.path).exists()
        or checkpoint.artifact_versions.filter(removed=False).exists()
    )
    try:
        (pin if held else unpin)(_place(checkpoint))
    except FilesGone as error:
        raise CheckpointGone(str(error)) from error
    except CheckpointError as error:
        raise TransitionRefused(str(error)) from error


def _delete(checkpoint: Checkpoint) -> None:
    """Mark the row as removed, set the files aside, and delete them after commit. Raises TransitionRefused."""
    reason = why_kept(checkpoint)
    if reason:
        raise TransitionRefused(f"the checkpoint of iteration {checkpoint.iteration} is kept: {reason}")
    checkpoint.removed, checkpoint.best = True, False
    checkpoint.save(update_fields=["removed", "best"])
    try:
        aside = set_aside(_place(checkpoint))
    except FilesGone:
        return  # the files are already deleted
    except CheckpointError as error:
        raise TransitionRefused(str(error)) from error
    transaction.on_commit(partial(delete, aside))


def _place(checkpoint: Checkpoint) -> Path:
    return checkpoint_place(settings.TROUPE_HOME / "runs" / checkpoint.run_id, checkpoint.path)


def _locked(user: Person, checkpoint: Checkpoint) -> Checkpoint:
    require_edit(user, checkpoint.run.project)
    rows = (
        Checkpoint.objects.select_for_update(of=("self",)).select_related("run__project").defer("run__facts")
    )
    return rows.get(pk=checkpoint.pk)


def _by_value(run: Run, rows: Iterable[Checkpoint]) -> list[Checkpoint]:
    """Return the evaluated checkpoints, the best first."""
    key = run.config.get("checkpoint", {}).get("best_of", "")
    evaluated = [
        row for row in rows if isinstance(value := row.metrics.get(key), int | float) and math.isfinite(value)
    ]
    return sorted(evaluated, key=lambda row: -row.metrics[key])
