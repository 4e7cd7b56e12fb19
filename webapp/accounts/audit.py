"""The audit log: one entry for every act that changes something."""

from typing import Any

from webapp.accounts.models import AuditEntry, Project
from webapp.accounts.permissions import Person


def audit_note(user: Person, project: Project | None, act: str, target: str = "", **details: Any) -> None:
    """Write an audit entry in the transaction of the act itself. `details` is JSON without secrets."""
    who = user.pk if user.is_authenticated else None
    AuditEntry.objects.create(project=project, user_id=who, act=act, target=target[:200], details=details)
