"""What users do with runs: launch, stop, pause, resume, archive, tag, set the priority.

Every change of state happens under the run's row lock.
"""

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

from django.conf import settings
from django.core.exceptions import PermissionDenied
from django.db import transaction
from django.db.models import Max
from django.http import Http404
from django.utils import timezone

from training_core.config.files import apply_overrides, no_preset, preset_names
from training_core.config.kinds import AnyConfig
from training_core.errors import ConfigError, TroupeError
from webapp.accounts.audit import audit_note
from webapp.accounts.models import Project, User
from webapp.accounts.permissions import Person, can_edit, require_edit
from webapp.accounts.tokens import launches_permit
from webapp.artifacts.services import references_resolve, uses_note
from webapp.checkpoints.services import checkpoint_named, require_whole
from webapp.provenance.services import LAUNCH, provenance_read, provenance_store
from webapp.runs import states
from webapp.runs.configs import check_storable, family_of, parse_permitted_for
from webapp.runs.lifecycle import (
    look_soon,
    run_add,
    run_announce,
    run_fault,
    run_move,
    run_reason_set,
    runs_locked,
    submit_soon,
)
from webapp.runs.models import Attempt, Run, RunState
from webapp.runs.selectors import run_get
from webapp.runs.states import TransitionRefused
from webapp.scheduling.admission import never_fits
from webapp.scheduling.attempts import (
    ENDING,
    ENDING_MEMBER,
    attempt_end,
    stopping_words,
)
from webapp.scheduling.seed_groups import is_shared_now
from workers.launchers.bundled_ray import present_cluster
from workers.launchers.launcher import LauncherFailure
from workers.launchers.registry import make_launcher
from workers.sizing.placement import demand, refuse_excess
from workers.telemetry.faults import fault_in

LOCAL = "local"
"""The launcher of processes on this machine."""
MOST = 500
"""Maximum number of runs in one bulk action."""
HIGHEST = 1000
"""Greatest priority."""
MOST_ITERATIONS = 2**31 - 1
"""Maximum number of iterations that events can count."""


@transaction.atomic
def run_create(
    user: Person,
    project: Project,
    tree: Mapping[str, Any],
    preset: str = "",
    overrides: Mapping[str, Any] | None = None,
    name: str = "",
    tags: Iterable[str] = (),
    provenance: Mapping[str, Any] | None = None,
) -> Run:
    """Create a queued run from a config tree with overrides; its submission follows on commit. `provenance`: what launched it
    (webapp/provenance/services.py).

    Raises ConfigError with one message per field path, PermissionDenied for users who cannot launch here.
    """
    if not isinstance(user, User) or not can_edit(user, project):
        raise PermissionDenied(
            f"you cannot launch in the project {project.slug}; ask an owner for the editor level"
        )
    launches_permit(user)
    if preset and preset not in preset_names():
        raise ConfigError({"preset": no_preset(preset)})
    whole, used = references_resolve(user, project, apply_overrides(tree, overrides or {}))
    config = parse_permitted_for(user, whole)
    if config.run.iterations > MOST_ITERATIONS:
        raise ConfigError({"run.iterations": f"at most {MOST_ITERATIONS}"})
    waits = fault_in(check_devices(config))
    resolved = config.model_dump(mode="json")
    check_storable(resolved)
    launched = provenance_read(provenance or {})
    run = Run(
        project=project,
        owner=user,
        name=(name or config.run.name or preset or config.environment.type)[:120],
        preset=preset,
        tags=sorted({str(tag)[:60] for tag in (*config.run.tags, *tags)}),
        config=resolved,
        family=family_of(resolved),
        iterations=config.run.iterations,
        reason=waits.cause,
        remedy=waits.remedy,
    )
    run_add(run)
    provenance_store(run, LAUNCH, launched)
    uses_note(run, used)
    audit_note(user, project, "run.launch", run.pk, name=run.name)
    transaction.on_commit(partial(submit_soon, run.pk))
    return run


def run_stop(user: Person, run: Run) -> Run:
    """Stop a run, with a checkpoint if it is running. Raises PermissionDenied, TransitionRefused."""
    return _end(user, run, "stop")


def run_pause(user: Person, run: Run) -> Run:
    """Write a checkpoint, end the run and release its devices, for a later resume. Raises PermissionDenied, TransitionRefused."""
    _ours(run, "paused")
    return _end(user, run, "pause")


def run_resume(user: Person, run: Run, checkpoint: str = "") -> Run:
    """Queue a new attempt from the last checkpoint, or from a named one: last, best or an iteration.

    Raises PermissionDenied, TransitionRefused (also for a damaged checkpoint), ConfigError, Http404 (unknown checkpoint).
    """
    chosen = checkpoint_named(user, run.pk, checkpoint) if checkpoint else None
    if chosen is not None:
        require_whole(chosen)  # before the transaction, whose rollback would undo the mark
    return _resumed(user, run, chosen.path if chosen else "")


@transaction.atomic
def _resumed(user: Person, run: Run, resume_from: str) -> Run:
    run = _locked(user, run)
    launches_permit(user)
    _ours(run, "resumed")
    if run.state not in states.RESUMABLE:  # the table also returns active runs to queued: a lost attempt
        remedy = "; fork it from a checkpoint" if run.state == RunState.FINISHED else ""
        raise states.TransitionRefused(f"a run that is {run.state} cannot be resumed{remedy}")
    last_attempt = run.attempts.aggregate(last=Max("number"))["last"] or 0
    run_move(
        run,
        RunState.QUEUED,
        stop_requested="",
        end_requested_at=None,
        losses_from=last_attempt,
        resume_from=resume_from,
    )
    transaction.on_commit(partial(submit_soon, run.pk))
    return run


@transaction.atomic
def run_end_now(user: Person, run: Run) -> Run:
    """End a stopping or pausing run immediately: the work of its iteration is lost; its driver still writes a checkpoint of
    the last completed iteration if possible. Raises PermissionDenied, TransitionRefused.
    """
    run = _locked(user, run)
    _ours(run, "ended")
    if run.state != RunState.STOPPING:
        raise states.TransitionRefused(
            f"a run that is {run.state} cannot be ended now: stop or pause it first"
        )
    if run.end_requested_at is None:
        run.end_requested_at = timezone.now()
        run.save(update_fields=["end_requested_at"])
        attempt = run.attempts.order_by("-number").first()
        run_reason_set(run, ENDING_MEMBER if attempt and is_shared_now(attempt) else ENDING)
    transaction.on_commit(partial(look_soon, run.pk))
    return run


def _ours(run: Run, what: str) -> None:
    """Raises TransitionRefused for actions that are only possible for runs launched by the server."""
    if run.is_custom:
        raise states.TransitionRefused(
            f"a run of a custom program cannot be {what} from here: end the program, or start it again"
        )


@transaction.atomic
def _end(user: Person, run: Run, how: str) -> Run:
    """End a queued run immediately; request a started one to end. A stop replaces a pending pause."""
    run = _locked(user, run)
    state = states.STATE_AFTER[how]
    if run.state == RunState.STOPPING and (how == "pause" or run.stop_requested == "stop"):
        return run
    if run.state == RunState.QUEUED:
        run_move(run, state, f"{state} before it started")
        for attempt in run.attempts.exclude(state=Attempt.State.ENDED):
            attempt_end(attempt, state, "")
    elif run.state == RunState.STOPPING:
        run.stop_requested = how
        run.save()
        run_announce(run)
    else:
        states.check(run, RunState.STOPPING, state)
        run.stop_requested, run.stop_requested_at = how, timezone.now()
        launched = not run.is_custom
        reason = stopping_words(run, run.attempts.order_by("-number").first()) if launched else run_fault(run)
        run_move(run, RunState.STOPPING, reason, end_requested_at=None)
    return run


def _locked(user: Person, run: Run) -> Run:
    require_edit(user, run.project)
    return runs_locked().select_related("project", "owner").get(pk=run.pk)


# What drivers report; called by ingest under the run's lock.


def check_devices(config: AnyConfig) -> str:
    """Return what a run would wait for that the cluster does not have; empty if it fits, or if the cluster does not answer.

    Raises ConfigError where no machine can be added: for the bundled Ray and for local processes.
    """
    wanted = demand(config)
    if wanted.cpus <= 1.0 and not wanted.gpus:
        return ""  # each machine has a core
    try:
        capacity = make_launcher(settings.TROUPE_LAUNCHER).capacity()
    except LauncherFailure:
        return ""
    if capacity is None:
        return ""
    if settings.TROUPE_LAUNCHER == LOCAL or present_cluster():
        refuse_excess(config, capacity.cpus, capacity.gpus, "this server's machine")
    return never_fits(wanted, capacity)


def run_do(user: Person, run: Run, act: str, value: str = "") -> None:
    """Apply `act` of ACTS to a run. Raises PermissionDenied, TransitionRefused, ConfigError (value)."""
    if act not in ACTS:
        raise ConfigError({"act": f"unknown act {act[:40]!r}; acts are {', '.join(ACTS)}"})
    with transaction.atomic():
        ACTS[act](user, run, value)
        audit_note(user, run.project, f"run.{act}", run.pk, **({"value": value} if value else {}))


def runs_do(user: Person, run_ids: Iterable[str], act: str, value: str = "") -> list[dict[str, Any]]:
    """Apply an action to many runs; a refusal does not affect the others. Returns [{"id", "ok", "detail"}].

    Raises ConfigError for an unknown action, an invalid value, or too many runs.
    """
    ids = list(dict.fromkeys(run_ids))
    if act not in ACTS:
        raise ConfigError({"act": f"unknown act {act[:40]!r}; acts are {', '.join(ACTS)}"})
    if not 0 < len(ids) <= MOST:
        raise ConfigError({"runs": f"name 1 to {MOST} runs"})
    return [_tried(user, run_id, act, value) for run_id in ids]


def _tried(user: Person, run_id: str, act: str, value: str) -> dict[str, Any]:
    try:
        run_do(user, run_get(user, run_id), act, value)
    except ConfigError:
        raise
    except (TroupeError, PermissionDenied, Http404) as error:
        return {"id": run_id, "ok": False, "detail": str(error) or "you do not have the permission"}
    return {"id": run_id, "ok": True, "detail": ""}


def _archive(user: Person, run: Run, value: str) -> None:
    run = _mine(user, run)
    if run.state in ("queued", "starting", "running", "stopping"):
        raise TransitionRefused(f"a run that is {run.state} cannot be archived: stop it first")
    _save(run, archived=True)


def _unarchive(user: Person, run: Run, value: str) -> None:
    _save(_mine(user, run), archived=False)


def _tag(user: Person, run: Run, value: str) -> None:
    run = _mine(user, run)
    _save(run, tags=sorted({*run.tags, _tag_text(value)}))


def _untag(user: Person, run: Run, value: str) -> None:
    run = _mine(user, run)
    _save(run, tags=[tag for tag in run.tags if tag != _tag_text(value)])


def _tag_text(value: str) -> str:
    tag = value.strip()
    if not tag or len(tag) > 60 or "\0" in tag:
        raise ConfigError({"value": "give a tag of 1 to 60 characters"})
    return tag


def _priority(user: Person, run: Run, value: str) -> None:
    try:
        number = int(value)
    except ValueError:
        number = HIGHEST + 1
    if abs(number) > HIGHEST:
        raise ConfigError({"value": f"give an integer from -{HIGHEST} to {HIGHEST}"})
    _save(_mine(user, run), priority=number)


def _mine(user: Person, run: Run) -> Run:
    """Return the run, locked. Raises PermissionDenied."""
    if not can_edit(user, run.project):
        raise PermissionDenied(f"you cannot change runs of the project {run.project.slug}")
    return runs_locked().get(pk=run.pk)


def _save(run: Run, **fields: Any) -> None:
    for name, value in fields.items():
        setattr(run, name, value)
    run.save(update_fields=list(fields))


ACTS: dict[str, Callable[[Person, Run, str], Any]] = {
    "stop": lambda user, run, _: run_stop(user, run),
    "pause": lambda user, run, _: run_pause(user, run),
    "end_now": lambda user, run, _: run_end_now(user, run),
    "resume": run_resume,
    "archive": _archive,
    "unarchive": _unarchive,
    "tag": _tag,
    "untag": _untag,
    "priority": _priority,
}
"""Function of each action; the last argument is its value, if it has one."""
