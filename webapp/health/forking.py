"""Forks for findings: from a checkpoint before the problem, with the edits of the rule."""

from collections.abc import Mapping
from typing import Any

from django.db import transaction

from training_core.config.files import parse_overrides
from training_core.config.health import RunHealth
from training_core.errors import ConfigError
from webapp.accounts.audit import audit_note
from webapp.accounts.permissions import Person
from webapp.checkpoints.models import Checkpoint
from webapp.health.models import Finding
from webapp.runs.models import Run
from webapp.runs.states import TransitionRefused
from webapp.scheduling.forking import run_fork


@transaction.atomic
def finding_fork(
    user: Person, finding: Finding, settings: RunHealth, overrides: Mapping[str, Any] | None = None
) -> Run:
    """Create a queued fork for a finding; once per finding. Without `overrides`, with the edits of the finding's rule.

    Raises ConfigError (edits, or none), PermissionDenied, TransitionRefused (already forked, no checkpoint).
    """
    held = (
        Finding.objects.select_for_update(of=("self",))
        .select_related("run__project")
        .defer("run__facts")
        .get(pk=finding.pk)
    )
    if held.fork_id:
        raise TransitionRefused(f"run {held.fork_id} was already forked for this finding")
    edits = dict(overrides or parse_overrides(fork_edits(settings, held.rule)))
    if not edits:
        raise ConfigError(
            {
                "overrides": "give at least one change; without edits the fork repeats the run with the same problem"
            }
        )
    checkpoint = checkpoint_for(held, settings.fork.checkpoint)
    fork = run_fork(user, checkpoint, edits, f"{held.run.name[:80]} after {held.rule.replace('_', ' ')}")
    held.fork = fork
    held.save(update_fields=["fork"])
    finding.fork = fork
    audit_note(user, held.run.project, "finding.fork", held.run_id, rule=held.rule, key=held.key, run=fork.pk)
    return fork


def fork_edits(settings: RunHealth, rule: str) -> tuple[str, ...]:
    """Return the edits of a fork for a finding of this rule; empty for a rule of another version of Troupe."""
    rule_settings = settings.rules().get(rule)
    return rule_settings.fork_edits if rule_settings else ()


def checkpoint_for(finding: Finding, which: str) -> Checkpoint:
    """Return the checkpoint to start from: `good`, the last before the finding's first step, or `best`. Raises TransitionRefused."""
    there = finding.run.checkpoints.filter(removed=False, damaged="")
    best = there.filter(best=True).first() if which == "best" else None
    good = there.filter(iteration__lt=finding.first_step).order_by("-iteration", "-pk").first()
    checkpoint = best or good
    if checkpoint is None:
        raise TransitionRefused(
            f"there is no checkpoint before step {finding.first_step}; write checkpoints more often (checkpoint.every)"
        )
    return checkpoint


def generations(run: Run) -> int:
    """Return the number of consecutive forks for findings that lead to this run."""
    count, here = 0, run
    while here.parent is not None:
        count += here.findings_answered.exists()
        here = here.parent
    return count
