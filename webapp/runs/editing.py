"""Editing the config of a run that has ended, for the attempt that goes on with it."""

from collections.abc import Mapping
from typing import Any

from django.db import transaction

from training_core.config.files import apply_overrides
from webapp.accounts.audit import audit_note
from webapp.accounts.permissions import Person
from webapp.checkpoints.forking import check_fits, fork_family
from webapp.checkpoints.selectors import checkpoint_latest
from webapp.common.permitted import parse_permitted
from webapp.experiments.differences import flatten
from webapp.runs.families import family_of
from webapp.runs.models import Run
from webapp.runs.services import check_storable, run_resume


@transaction.atomic
def run_resume_edited(user: Person, run: Run, overrides: Mapping[str, Any]) -> Run:
    """Queue a new attempt under the run's config with `overrides`, which are noted as that attempt's changes.

    Raises ConfigError with one message per field path, PermissionDenied, TransitionRefused.
    """
    run = run_resume(user, run)
    config = parse_permitted(apply_overrides(run.config, overrides))
    latest = checkpoint_latest(run)
    if latest is not None:
        check_fits(config, latest)
    resolved = config.model_dump(mode="json")
    check_storable(resolved)
    edits = _edits(run.config, resolved)
    run.edits = run.edits | edits
    run.config, run.family, run.iterations = resolved, family_of(resolved), config.run.iterations
    if run.parent_checkpoint:
        run.family = fork_family(run)
    run.save(update_fields=["config", "edits", "family", "iterations"])
    audit_note(user, run.project, "run.resume", run.pk, **({"edits": edits} if edits else {}))
    return run


def _edits(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    """Fields that are not as they were: dotted path -> new value, None where there is none now."""
    old, new = flatten(before), flatten(after)
    return {path: new.get(path) for path in (new | old) if new.get(path) != old.get(path)}
