"""The audit log: one entry for every act that changes something, and queries of a project's entries."""

from collections.abc import Mapping
from typing import Any

from django.db.models import Q
from django.utils.dateparse import parse_date, parse_datetime

from training_core.errors import ConfigError
from troupe_client.documents import projects as documents
from webapp.accounts.models import ApiToken, AuditEntry, Project
from webapp.accounts.permissions import Person

PAGE = 50
FIELDS = ("user", "act", "target", "since", "until", "before")


def audit_note(user: Person, project: Project | None, act: str, target: str = "", **details: Any) -> None:
    """Write an audit entry in the transaction of the act itself. `details` is JSON without secrets; the names of the token and of the
    assistant's tool that were used are added.
    """
    who = user.pk if user.is_authenticated else None
    token, tool = getattr(user, "token", None), getattr(user, "tool", "")
    details |= ({"token": token.name} if token else {}) | ({"tool": tool} if tool else {})
    AuditEntry.objects.create(
        project=project, user_id=who, token=token, act=act, target=target[:200], details=details
    )


def audit_once(token: ApiToken, project: Project, act: str, target: str) -> None:
    """Write an entry for the first of the acts that a program repeats with its token, such as reports of values to a run."""
    if not token.audit_entries.filter(act=act, target=target).exists():
        audit_note(token.user, project, act, target)


def audit_read(
    project: Project, filters: Mapping[str, str], count: int = PAGE
) -> tuple[list[AuditEntry], int | None]:
    """Return `count` entries, newest first, and the id before which the next ones are, or None.

    Filters: user (name), act (a prefix, e.g. run or run.stop), target (a substring), since and until (dates, or ISO 8601
    timestamps, UTC; until is exclusive for a timestamp, inclusive for a date), before (id).
    Raises ConfigError for an invalid date or number.
    """
    entries = AuditEntry.objects.filter(project=project).select_related("user")
    if filters.get("user"):
        entries = entries.filter(user__username=filters["user"])
    if filters.get("act"):
        entries = entries.filter(act__startswith=filters["act"])
    if filters.get("target"):
        entries = entries.filter(target__icontains=filters["target"])
    if filters.get("before"):
        entries = entries.filter(pk__lt=_number(filters["before"]))
    entries = entries.filter(*(_moment(name, filters.get(name, "")) for name in ("since", "until")))
    rows = list(entries[: count + 1])
    return rows[:count], rows[count - 1].pk if len(rows) > count else None


def audit_acts(project: Project) -> list[str]:
    """Return the distinct acts in the log, for a select field."""
    acts = AuditEntry.objects.filter(project=project).order_by("act").values_list("act", flat=True)
    return list(acts.distinct())


def audit_people(project: Project) -> list[str]:
    """Return the names of users with entries in the log."""
    entries = AuditEntry.objects.filter(project=project, user__isnull=False).order_by("user__username")
    return list(entries.values_list("user__username", flat=True).distinct())


def audit_document(entry: AuditEntry) -> documents.AuditEntry:
    """Return the document of an entry."""
    username = entry.user.username if entry.user else None
    return documents.AuditEntry.of_row(entry, user=username, time=entry.created_at)


def _number(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) < 19):
        raise ConfigError({"before": "give the id of an entry"})
    return int(text)


def _moment(name: str, text: str) -> Q:
    """Return the filter for a `since` or `until` date or timestamp."""
    if not text:
        return Q()
    try:
        day = parse_date(text)
        moment = None if day else parse_datetime(text)
    except ValueError:
        day = moment = None
    if day:
        return Q(created_at__date__gte=day) if name == "since" else Q(created_at__date__lte=day)
    if moment is None or moment.tzinfo is None:
        raise ConfigError(
            {name: f"{text[:40]!r} is not a date: use 2026-01-31, or 2026-01-31T12:00:00Z for a timestamp"}
        )
    return Q(created_at__gte=moment) if name == "since" else Q(created_at__lt=moment)
