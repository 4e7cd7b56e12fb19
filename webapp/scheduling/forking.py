"""Forks, new runs that start from a checkpoint of another run; and resumed runs with an edited config.

Iterations, weights, optimizer and random states continue from the checkpoint, so a fork without edits repeats its parent.
"""

import hashlib
from collections.abc import Iterable, Mapping
from typing import Any

from django.db import transaction

from training_core.config.experiment import ExperimentConfig
from training_core.config.files import apply_overrides, parse_config
from training_core.config.kinds import AnyConfig
from training_core.errors import ConfigError
from webapp.accounts.audit import audit_note
from webapp.accounts.permissions import Person
from webapp.checkpoints.models import Checkpoint
from webapp.checkpoints.services import (
    CheckpointGone,
    checkpoint_hold,
    checkpoint_latest,
    checkpoint_named,
    checkpoint_words,
    require_whole,
)
from webapp.runs.configs import check_storable, config_again, family_of, flatten, parse_permitted_for
from webapp.runs.models import Run
from webapp.runs.selectors import run_get
from webapp.runs.states import TransitionRefused
from webapp.scheduling.services import check_devices, run_create, run_resume

LOOKUPS = 3
"""Number of lookups of `last` if retention deletes it concurrently."""


def run_fork_named(
    user: Person,
    run_id: str,
    checkpoint: str,
    overrides: Mapping[str, Any] | None = None,
    name: str = "",
    tags: Iterable[str] = (),
    provenance: Mapping[str, Any] | None = None,
) -> Run:
    """`run_fork` of a checkpoint by its name: last, best or an iteration. Raises the errors of run_fork, and Http404.

    A `last` whose files were just deleted by the run's own retention is looked up again. The `last` or `best` of a run that
    has not written a checkpoint yet is its start: `run_launch_again`.
    """
    run = run_get(user, run_id)
    if checkpoint in ("last", "best") and not run.checkpoints.exists():
        return run_launch_again(user, run, overrides, name, tags, provenance)
    gone: list[int] = []
    while True:
        chosen = checkpoint_named(user, run_id, checkpoint, gone)
        try:
            return run_fork(user, chosen, overrides, name, tags, provenance=provenance)
        except CheckpointGone:
            gone.append(chosen.pk)
            if checkpoint != "last" or len(gone) == LOOKUPS:
                raise


def run_fork(
    user: Person,
    checkpoint: Checkpoint,
    overrides: Mapping[str, Any] | None = None,
    name: str = "",
    tags: Iterable[str] = (),
    tree: Mapping[str, Any] | None = None,
    provenance: Mapping[str, Any] | None = None,
) -> Run:
    """Create a queued run that starts from the checkpoint, in the project of the checkpoint's run.

    Its config is `tree` (default: the config of the checkpoint's run) with overrides.

    Raises ConfigError with one message per field path, PermissionDenied; TransitionRefused if the checkpoint is
    damaged, or (CheckpointGone) deleted.
    """
    require_whole(checkpoint)  # before the transaction, whose rollback would undo the mark
    return _forked(user, checkpoint, dict(overrides or {}), name, tags, tree, provenance)


def run_launch_again(
    user: Person,
    run: Run,
    overrides: Mapping[str, Any] | None = None,
    name: str = "",
    tags: Iterable[str] = (),
    provenance: Mapping[str, Any] | None = None,
) -> Run:
    """Create a queued run that starts where `run` started, with its config and overrides: from the base models, or from the
    checkpoint that it was forked from.

    Raises the errors of run_create and run_fork; TransitionRefused for the run of a custom program.
    """
    if run.is_custom:
        raise TransitionRefused("a run of a custom program cannot be launched again from here")
    tree, title = config_again(run), name or f"{run.name[:110]} again"
    if origin := run_start(run):
        return run_fork(user, origin, overrides, title, tags, tree, provenance)
    return run_create(user, run.project, tree, run.preset, overrides, title, tags, provenance)


def run_start(run: Run) -> Checkpoint | None:
    """Return the checkpoint that a run was forked from; None if it started from its base models."""
    if run.parent is None or not run.parent_checkpoint:
        return None
    return Checkpoint.objects.filter(run=run.parent, path=run.parent_checkpoint).order_by("-pk").first()


@transaction.atomic
def _forked(
    user: Person,
    checkpoint: Checkpoint,
    overrides: dict[str, Any],
    name: str,
    tags: Iterable[str],
    tree: Mapping[str, Any] | None,
    provenance: Mapping[str, Any] | None,
) -> Run:
    held = _held(checkpoint)
    parent = held.run
    tree = parent.config if tree is None else tree
    config = parse_permitted_for(user, apply_overrides(tree, overrides))
    check_fits(config, held)
    renamed = config.run.name != parent.config["run"]["name"]
    title = name or (config.run.name if renamed else f"{parent.name} fork")
    run = run_create(user, parent.project, tree, parent.preset, overrides, title, tags, provenance)
    run.parent, run.parent_checkpoint = parent, held.path
    run.parent_iteration = run.iteration = held.iteration
    run.family = fork_family(run)
    run.save(update_fields=["parent", "parent_checkpoint", "parent_iteration", "iteration", "family"])
    checkpoint_hold(held)
    audit_note(user, parent.project, "checkpoint.fork", f"{parent.pk}/{held.path}", run=run.pk)
    return run


def check_fits(config: AnyConfig, checkpoint: Checkpoint) -> None:
    """Raises ConfigError if a run with `config` cannot continue from the checkpoint. The driver checks again, with the weights."""
    wrong: dict[str, str] = {}
    before = parse_config(checkpoint.run.config)
    if config.run.iterations <= checkpoint.iteration:
        wrong["run.iterations"] = (
            f"the checkpoint is of iteration {checkpoint.iteration}, from which the run continues; "
            "set a larger total"
        )
    if config.agents != before.agents:
        raise ConfigError(
            {
                "algorithm.type": f"the checkpoint was trained with {before.algorithm.type}; a fork cannot change the kind of agents"
            }
        )
    if str(config.environment.type) != str(before.environment.type):
        wrong["environment.type"] = (
            f"the checkpoint was trained on {before.environment.type}; a fork cannot change the environment"
        )
    wrong |= _policies_that_do_not_fit(config, before)
    if wrong:
        raise ConfigError(wrong)


def _policies_that_do_not_fit(config: ExperimentConfig, before: ExperimentConfig) -> dict[str, str]:
    """Return errors for policies that cannot be loaded: missing policies, other models, other networks."""
    wrong: dict[str, str] = {}
    for policy in config.used_policies:
        if policy not in before.used_policies:
            wrong[f"policies.{policy}"] = (
                f"the checkpoint has no such policy; it has {', '.join(before.used_policies)}"
            )
        elif config.networks.get(policy) != before.networks.get(policy):
            wrong[f"policies.{policy}.network"] = "the checkpoint has a different network; do not change it"
        elif config.models.get(policy) != before.models.get(policy):
            wrong[f"policies.{policy}.model"] = (
                f"the checkpoint has weights of {before.models[policy]}; do not change the model"
            )
    return wrong


def _held(checkpoint: Checkpoint) -> Checkpoint:
    """Return the checkpoint, locked against deletion. Raises TransitionRefused."""
    held = (
        Checkpoint.objects.select_for_update(of=("self",))
        .select_related("run__project")
        .defer("run__facts")
        .get(pk=checkpoint.pk)
    )
    if held.removed:
        raise CheckpointGone(f"{checkpoint_words(held)} was removed; fork from another one")
    if held.run.is_custom:
        raise TransitionRefused("a run of a custom program cannot be forked")
    return held


def fork_family(run: Run) -> str:
    """Return the family of forks of one checkpoint with one config, distinct from runs that start from the base model."""
    identity = f"{run.family} {run.parent_id} {run.parent_checkpoint}"
    return hashlib.sha256(identity.encode()).hexdigest()[:16]


def run_resume_edited(user: Person, run: Run, overrides: Mapping[str, Any], checkpoint: str = "") -> Run:
    """Queue a new attempt with the run's config and `overrides`, which are recorded as the attempt's changes.

    `checkpoint` is the one to start from (last, best or an iteration); empty for the last.

    Raises ConfigError with one message per field path, PermissionDenied, TransitionRefused, Http404.
    """
    chosen = checkpoint_named(user, run.pk, checkpoint) if checkpoint else None
    if chosen is not None:
        require_whole(chosen)  # before the transaction, whose rollback would undo the mark
    return _resumed_edited(user, run, overrides, chosen)


@transaction.atomic
def _resumed_edited(user: Person, run: Run, overrides: Mapping[str, Any], chosen: Checkpoint | None) -> Run:
    run = run_resume(user, run, str(chosen.iteration) if chosen else "")
    config = parse_permitted_for(user, apply_overrides(run.config, overrides))
    origin = chosen or checkpoint_latest(run)
    if origin is not None:
        check_fits(config, origin)
    check_devices(config)
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
