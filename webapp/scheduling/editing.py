"""Edits of the config of an ended run, for its next attempt."""

from collections.abc import Mapping
from typing import Any

from django.db import transaction

from training_core.config.files import apply_overrides
from webapp.accounts.audit import audit_note
from webapp.accounts.permissions import Person
from webapp.checkpoints.damage import require_whole
from webapp.checkpoints.models import Checkpoint
from webapp.checkpoints.selectors import checkpoint_latest, checkpoint_named
from webapp.runs.configs import check_storable, family_of, flatten, parse_permitted_for
from webapp.runs.models import Run
from webapp.scheduling.devices import check_gpus
from webapp.scheduling.forking import check_fits, fork_family
from webapp.scheduling.services import run_resume


def run_resume_edited(user: Person, run: Run, overrides: Mapping[str, Any], checkpoint: str = "") -> Run:
    """Queue a new attempt with the run's config and `overrides`, which are recorded as the attempt's changes.

    `checkpoint` is the one to start from (last, best or an iteration); empty for the last.

    Raises ConfigError with one message per field path, PermissionDenied, TransitionRefused, Http404.
    """
    chosen = checkpoint_named(user, run.pk, checkpoint) if checkpoint else None
    if chosen is not None:
        require_whole(chosen)  # before the transaction, whose rollback would undo the mark
    return _resumed(user, run, overrides, chosen)


@transaction.atomic
def _resumed(user: Person, run: Run, overrides: Mapping[str, Any], chosen: Checkpoint | None) -> Run:
    run = run_resume(user, run, str(chosen.iteration) if chosen else "")
    config = parse_permitted_for(user, apply_overrides(run.config, overrides))
    origin = chosen or checkpoint_latest(run)
    if origin is not None:
        check_fits(config, origin)
    check_gpus(config)
    resolved = config.model_dump(mode="json")
    check_storable(resolved)
    edits = _edits(run.config, resolved)
    run.edits = run.edits | edits
    run.config, run.family, run.iterations = resolved, family_of(resolved), config.run.iterations
    if run.parent_checkpoint:
        run.family = fork_family(run)
    run.save(update_fields=["config", "edits", "family", "iterations"])
    details: dict[str, Any] = {"edits": edits} if edits else {}
    details |= {"checkpoint": chosen.path} if chosen else {}
    audit_note(user, run.project, "run.resume", run.pk, **details)
    return run


def _edits(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    """Return the changed fields: dotted path -> new value, None for a removed one."""
    old, new = flatten(before), flatten(after)
    return {path: new.get(path) for path in (new | old) if new.get(path) != old.get(path)}
