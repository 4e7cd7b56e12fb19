"""Reading a project's audit log."""

from collections.abc import Mapping
from typing import Any

from django.db.models import Q, QuerySet
from django.utils.dateparse import parse_date, parse_datetime

from training_core.errors import ConfigError
from webapp.accounts.models import AuditEntry, Project

PAGE = 50
FIELDS = ("user", "act", "target", "since", "until", "before")


def audit_list(project: Project, filters: Mapping[str, str]) -> QuerySet[AuditEntry]:
    """Newest first. Filters: user (name), act (its beginning, e.g. run or run.stop), target (part of it), since and
    until (dates, or moments in ISO 8601, UTC; until is excluded for a moment, included for a date), before (id).

    Raises ConfigError for what is no date or number.
    """
    found = AuditEntry.objects.filter(project=project).select_related("user")
    if filters.get("user"):
        found = found.filter(user__username=filters["user"])
    if filters.get("act"):
        found = found.filter(act__startswith=filters["act"])
    if filters.get("target"):
        found = found.filter(target__icontains=filters["target"])
    if filters.get("before"):
        found = found.filter(pk__lt=_number(filters["before"]))
    return found.filter(
        _moment("since", filters.get("since", "")), _moment("until", filters.get("until", ""))
    )


def audit_acts(project: Project) -> list[str]:
    """Acts that are in the log, for a choice."""
    acts = AuditEntry.objects.filter(project=project).order_by("act").values_list("act", flat=True)
    return list(acts.distinct())


def audit_people(project: Project) -> list[str]:
    """Names of those who did something."""
    known = AuditEntry.objects.filter(project=project, user__isnull=False).order_by("user__username")
    return list(known.values_list("user__username", flat=True).distinct())


def audit_document(entry: AuditEntry) -> dict[str, Any]:
    """One line as JSON; the user is None for what Troupe did by itself."""
    return {
        "id": entry.pk,
        "user": entry.user.username if entry.user else None,
        "act": entry.act,
        "target": entry.target,
        "details": entry.details,
        "time": entry.created_at.isoformat(),
    }


def _number(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) < 19):
        raise ConfigError({"before": "give the id of an entry"})
    return int(text)


def _moment(name: str, text: str) -> Q:
    """From or up to a day or a moment."""
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
            {name: f"{text[:40]!r} is no date: use 2026-01-31, or 2026-01-31T12:00:00Z for a moment"}
        )
    return Q(created_at__gte=moment) if name == "since" else Q(created_at__lt=moment)
