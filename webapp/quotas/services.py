"""Changes to quotas and measurement of stored data."""

from collections.abc import Mapping
from functools import partial

from django.core.exceptions import PermissionDenied, ValidationError
from django.db import transaction
from django.utils import timezone

from training_core.errors import ConfigError
from webapp.accounts.audit import audit_note
from webapp.accounts.models import Project
from webapp.accounts.permissions import Person, is_owner
from webapp.quotas.models import Quota
from webapp.quotas.selectors import LIMITS, bytes_stored, points_stored
from webapp.runs.costs import runs_waiting
from webapp.runs.lifecycle import submit_soon


@transaction.atomic
def quota_set(user: Person, project: Project, limits: Mapping[str, float | None]) -> Quota:
    """Change some limits; None removes a limit. Triggers a check of queued runs.

    Raises PermissionDenied unless the user is an owner, or if an administrator has locked it; ConfigError.
    """
    quota, _ = Quota.objects.select_for_update().get_or_create(project=project)
    if not is_owner(user, project):
        raise PermissionDenied("only owners of the project may change its quotas")
    if quota.locked:
        raise PermissionDenied("an administrator has set these quotas; ask one to change them")
    for name, value in limits.items():
        if name not in LIMITS:
            raise ConfigError({name[:40]: f"unknown quota; use {', '.join(LIMITS)}"})
        setattr(quota, name, value)
    try:
        quota.full_clean(exclude=["project"])
    except ValidationError as error:
        raise ConfigError(
            {field: " ".join(messages) for field, messages in error.message_dict.items()}
        ) from error
    quota.save()
    quota_measure(quota)
    audit_note(user, project, "quota.set", project.slug, **limits)
    for run_id in runs_waiting().filter(project=project).values_list("pk", flat=True):
        transaction.on_commit(partial(submit_soon, run_id))
    return quota


def quota_measure(quota: Quota) -> Quota:
    """Measure the stored data, if it is limited."""
    if quota.points is not None:
        quota.stored_points = points_stored(quota.project)
    if quota.gigabytes is not None:
        quota.stored_bytes = bytes_stored(quota.project)
    quota.measured_at = timezone.now()
    quota.save(update_fields=["stored_points", "stored_bytes", "measured_at"])
    return quota
