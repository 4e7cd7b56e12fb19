"""Pinning, deletion and retention of checkpoints. Deletion also removes the files; drivers respect pins too."""

import math
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Any

from django.conf import settings
from django.db import transaction

from training_core.errors import CheckpointError, ConfigError
from webapp.accounts.audit import audit_note
from webapp.accounts.permissions import Person, require_edit
from webapp.checkpoints.damage import CheckpointGone, damage_look
from webapp.checkpoints.models import Checkpoint
from webapp.checkpoints.selectors import checkpoint_latest
from webapp.runs.models import ACTIVE_STATES, Attempt, Run, RunState
from webapp.runs.states import TransitionRefused
from workers.storage.checkpoint_files import FilesGone, checkpoint_place, delete, pin, set_aside, unpin

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
def checkpoints_prune(user: Person, run: Run, last: int, best: int, dry: bool = False) -> dict[str, Any]:
    """Delete all but the `last` newest and `best` best; pinned ones, forked ones and those in use stay too, damaged ones do not.

    Returns {"deleted": [iterations], "kept": [iterations], "bytes": freed}. Raises PermissionDenied, TransitionRefused.
    """
    rows = list(run.checkpoints.filter(removed=False).order_by("-iteration", "-pk"))
    whole = [row for row in rows if not row.damaged]
    wanted = {row.pk for row in whole[:last]} | {row.pk for row in _by_value(run, whole)[:best]}
    going = []
    for row in rows:
        if row.pk not in wanted:
            held = _locked(user, row)
            if not why_kept(held):
                going.append(held)
    for row in going if not dry else []:
        _delete(row)
    iterations = [row.iteration for row in going]
    if going and not dry:
        audit_note(user, run.project, "checkpoint.prune", run.pk, last=last, best=best, deleted=iterations)
    kept_iterations = [row.iteration for row in rows if row.iteration not in iterations]
    return {"deleted": iterations, "kept": kept_iterations, "bytes": sum(row.size for row in going)}


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
