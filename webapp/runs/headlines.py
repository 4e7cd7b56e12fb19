"""The headline metrics of a run: which ones its overview shows first."""

from collections.abc import Iterable

from django.core.exceptions import PermissionDenied
from django.db import transaction

from training_core.errors import ConfigError
from webapp.accounts.audit import audit_note
from webapp.accounts.permissions import Person, can_edit
from webapp.runs.models import Run

MOST = 12
LONGEST = 200
"""Maximum length of a metric's name, as in events."""


def headline_read(names: Iterable[str]) -> list[str]:
    """Return the names without blanks and duplicates. Raises ConfigError (headline) for too many and too long ones."""
    keys = list(dict.fromkeys(name.strip() for name in names if name.strip()))
    if len(keys) > MOST:
        raise ConfigError({"headline": f"has {len(keys)} metrics; name at most {MOST}"})
    if wrong := next((key for key in keys if len(key) > LONGEST or "\0" in key), None):
        raise ConfigError(
            {"headline": f"{wrong[:40]!r} is not the name of a metric; use its name on the curves page"}
        )
    return keys


@transaction.atomic
def run_headline_set(user: Person, run: Run, names: Iterable[str]) -> None:
    """Choose the metrics that the overview shows first; none: by their names. Raises PermissionDenied, ConfigError (headline)."""
    if not can_edit(user, run.project):
        raise PermissionDenied(f"you cannot write in the project {run.project.slug}")
    run.headline_keys = headline_read(names)
    run.save(update_fields=["headline_keys"])
    audit_note(user, run.project, "run.headline", run.pk, headline=run.headline_keys)
