"""Actions on one or many runs: stop, pause, resume, archive, tag, set the priority. Each is recorded in the audit log."""

from collections.abc import Callable, Iterable
from typing import Any

from django.core.exceptions import PermissionDenied
from django.db import transaction
from django.http import Http404

from training_core.errors import ConfigError, TroupeError
from webapp.accounts.audit import audit_note
from webapp.accounts.permissions import Person, can_edit
from webapp.runs.lifecycle import runs_locked
from webapp.runs.models import Run
from webapp.runs.selectors import run_get
from webapp.runs.states import TransitionRefused
from webapp.scheduling import services

MOST = 500
"""Maximum number of runs in one bulk action."""
HIGHEST = 1000


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
    "stop": lambda user, run, _: services.run_stop(user, run),
    "pause": lambda user, run, _: services.run_pause(user, run),
    "end_now": lambda user, run, _: services.run_end_now(user, run),
    "resume": services.run_resume,
    "archive": _archive,
    "unarchive": _unarchive,
    "tag": _tag,
    "untag": _untag,
    "priority": _priority,
}
"""Function of each action; the last argument is its value, if it has one."""
