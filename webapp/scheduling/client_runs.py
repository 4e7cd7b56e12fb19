"""Runs of custom programs: created, marked as failed after a long silence, revived when the program reports again.

The server launches nothing for them. Their config has the sections required by pages, mostly empty, and the program's
own config under `client`.
"""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any, cast

from django.core.exceptions import PermissionDenied
from django.db import transaction
from django.utils import timezone

from training_core.config.files import parse_config
from troupe_client.documents.launches import ClientRunBody
from webapp.accounts.audit import audit_note
from webapp.accounts.models import Project, User
from webapp.accounts.permissions import Person, can_edit
from webapp.accounts.throttling import GUESSES, guess_note, too_many_guesses
from webapp.provenance.services import provenance_read, provenance_store
from webapp.runs.configs import check_storable, family_of
from webapp.runs.lifecycle import run_add, run_locked, run_move, run_reason_set, runs_locked
from webapp.runs.models import ACTIVE_STATES, Attempt, Run, RunNote, RunSource, RunState
from webapp.runs.notes import headline_read
from webapp.runs.states import TransitionRefused
from webapp.scheduling.attempts import attempt_end
from workers.provenance.redaction import values_without_secrets
from workers.telemetry.faults import Fault

QUIET = timedelta(seconds=60)
"""Silence after which the owner is notified."""
HEARD = timedelta(seconds=15)
"""A program that has reported within this time is alive: reports come every 5 s."""
GIVEN_UP = timedelta(minutes=15)
"""Silence after which the run counts as failed, until its program reports again."""
NO_BEATS = timedelta(days=1)
"""The same for programs that report values only, and nothing in between."""


@transaction.atomic
def client_run_begin(user: Person, project: Project, wanted: ClientRunBody) -> tuple[Run, Attempt]:
    """Return the run and the attempt for the program's events.

    A program with a role, or one that resumes a run whose program is alive, joins the latest attempt. The fields of the
    config of a main program that joins, or that repeats its request, are added to the config.

    Raises PermissionDenied, ConfigError (values that cannot be stored), TransitionRefused (an id that is in use, or unknown
    with resume = "must").
    """
    if not can_edit(user, project):
        raise PermissionDenied(
            f"you cannot write to the project {project.slug}; ask an owner for the editor level"
        )
    if too_many_guesses("run", user.pk):
        raise TransitionRefused(
            f"{GUESSES} ids were in use by other runs; wait an hour before you start another run"
        )
    run = run_locked(wanted.id)
    if run is None:
        if wanted.resume == "must":
            raise TransitionRefused(f"there is no run {wanted.id} to resume; omit resume to create it")
        run = _made(user, project, wanted)
        return run, _attempt(run, 1, wanted)
    latest = run.attempts.order_by("-number").first()
    if run.project_id != project.pk or not run.is_custom or latest is None:
        guess_note("run", user.pk)
        raise TransitionRefused(f"the id {wanted.id} is in use by another run; choose another one")
    known = run.attempts.filter(submission_id__endswith=f"-{wanted.nonce}").first() if wanted.nonce else None
    if known or wanted.role or (wanted.resume != "never" and _is_alive(latest)):
        own = run.config.get("client", {})
        adds = not wanted.role and wanted.resolved is None
        values = values_without_secrets(wanted.config)
        if adds and any(own.get(key, ...) != value for key, value in values.items()):
            client_run_configure(run, values)
        return run, known or latest
    if wanted.resume == "never":
        raise TransitionRefused(
            f'run {wanted.id} exists; pass resume="allow" to continue it, or a role to report to it as another program'
        )
    return run, _resumed(run, latest, wanted)


def _is_alive(attempt: Attempt) -> bool:
    """Whether the program of an attempt reports; another program then joins it, and neither ends the other."""
    heard = attempt.heartbeat_at or attempt.created_at
    return attempt.state != Attempt.State.ENDED and timezone.now() - heard < HEARD


def _made(user: Person, project: Project, wanted: ClientRunBody) -> Run:
    config = client_config(wanted) if wanted.resolved is None else _imported(wanted.resolved)
    check_storable(config)
    for field in ("name", "group", "notes", "tags"):
        check_storable(getattr(wanted, field), field)
    tags = [*wanted.tags, *([f"group:{wanted.group}"] if wanted.group else [])]
    now = timezone.now()
    run = Run(
        pk=wanted.id,
        project=project,
        owner=cast(User, user),
        name=wanted.name or wanted.id,
        tags=sorted({tag[:60] for tag in tags}),
        source=RunSource.CLIENT,
        config=config,
        family=family_of(config),
        state=RunState.RUNNING,
        iterations=wanted.steps,
        headline_keys=headline_read(wanted.headline),
        started_at=now,
    )
    run_add(run)
    if wanted.notes.strip():
        RunNote.objects.create(run=run, author=run.owner, text=wanted.notes)
    audit_note(user, project, "run.begin", run.pk, name=run.name)
    return run


def _imported(config: dict[str, Any]) -> dict[str, Any]:
    """Return the config of a run of another server with all its sections. It is shown, not launched: it may name code that this server
    does not permit. Raises ConfigError if this version cannot read it.
    """
    return parse_config(config).model_dump(mode="json")


def client_run_configure(run: Run, values: Mapping[str, Any]) -> None:
    """Add values to the program's own config, without secrets. The caller holds the run's lock. Raises ConfigError."""
    own = {**run.config.get("client", {}), **values_without_secrets(values)}
    check_storable(own)
    run.config = {**run.config, "run": {**run.config["run"], "seed": _seed(own)}, "client": own}
    run.family = family_of(run.config)
    run.save(update_fields=["config", "family"])


def client_config(wanted: ClientRunBody) -> dict[str, Any]:
    """Return the sections required by every page, and the program's own config without secrets."""
    policies = dict.fromkeys(wanted.team.values())
    return {
        "run": {
            "name": wanted.name,
            "iterations": wanted.steps,
            "seed": _seed(wanted.config),
            "max_attempts": 1,
        },
        "team": {
            "roles": {role: {"policy": policy, "trained": True} for role, policy in wanted.team.items()},
            "order": list(wanted.team),
        },
        "policies": {policy: {"model": ""} for policy in policies},
        "environment": {"type": wanted.environment},
        "algorithm": {"type": wanted.algorithm},
        "checkpoint": {"best_of": "", "keep": 0, "every": 0},
        "client": values_without_secrets(wanted.config),
    }


def _seed(config: Mapping[str, Any]) -> Any:
    seed = config.get("seed", 0)
    return seed if isinstance(seed, int) else 0


def _resumed(run: Run, latest: Attempt, wanted: ClientRunBody) -> Attempt:
    if latest.state != Attempt.State.ENDED:
        attempt_end(latest, "stopped", "its program started again")
    headline = run.headline_keys or headline_read(wanted.headline)  # a choice on the page is not replaced
    run_move(
        run,
        RunState.RUNNING,
        stop_requested="",
        iterations=wanted.steps or run.iterations,
        headline_keys=headline,
    )
    return _attempt(run, latest.number + 1, wanted)


def _attempt(run: Run, number: int, wanted: ClientRunBody) -> Attempt:
    """Create an attempt, which counts on from the completed steps of the run, or repeats some of them."""
    first = run.iteration if wanted.first_step is None else min(run.iteration, wanted.first_step)
    provenance_store(run, number, provenance_read({"via": "client"} | wanted.provenance))
    return Attempt.objects.create(
        run=run,
        number=number,
        state=Attempt.State.LIVE,
        submission_id=_submission(run, number, wanted.nonce),
        resumed_iteration=first,
        heartbeat_at=timezone.now(),
        started_at=timezone.now(),
    )


def _submission(run: Run, number: int, nonce: str) -> str:
    return f"client-{run.pk}-{number}-{nonce}"[:80]


@transaction.atomic
def client_run_look_after(run_id: str, since: Any, *, beats: bool = True) -> None:
    """Report a silent program, and mark it as failed after a long silence. `since`: start of the observation.

    beats: whether the program reports every few seconds, also while it has no values.
    """
    run = runs_locked().get(pk=run_id)
    attempt = run.attempts.order_by("-number").first()
    if run.state not in ACTIVE_STATES or attempt is None:
        return
    silence = timezone.now() - max(attempt.heartbeat_at or attempt.created_at, since)
    if silence > (GIVEN_UP if beats or run.stop_requested else NO_BEATS):
        minutes = round(silence.total_seconds() / 60)
        cause = f"The program of this run has not reported for {minutes} minutes."
        run_move(run, RunState.FAILED, Fault(cause, "Check the program; its next report revives the run."))
        attempt_end(attempt, "lost", cause)
    elif silence > QUIET and beats:
        seconds = round(silence.total_seconds(), -1)
        run_reason_set(run, f"The program of this run has not reported for {seconds:.0f} s")
    else:
        run_reason_set(run, "")


def client_run_revive(run: Run, attempt: Attempt) -> None:
    """Revive a run whose program was given up and reports again. The caller holds the run's lock; other runs are unchanged."""
    given_up = run.is_custom and run.state == RunState.FAILED and attempt.ended_as == "lost"
    if not given_up or run.attempts.filter(number__gt=attempt.number).exists():
        return
    attempt.state, attempt.ended_as, attempt.reason, attempt.ended_at = Attempt.State.LIVE, "", "", None
    attempt.save()
    run_move(run, RunState.RUNNING)
