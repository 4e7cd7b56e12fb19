"""Queries of findings, limited to the user's own projects."""

from typing import Any

from django.conf import settings
from django.db.models import Case, IntegerField, Value, When
from django.http import Http404
from django.urls import reverse

from webapp.accounts.permissions import Person
from webapp.health.models import Finding
from webapp.health.rules import RULES
from webapp.metrics.arrays import spell
from webapp.runs.models import Run
from webapp.runs.selectors import run_get

_ORDER = Case(
    When(state="open", severity="critical", then=Value(0)),
    When(state="open", then=Value(1)),
    When(state="dismissed", then=Value(2)),
    default=Value(3),
    output_field=IntegerField(),
)


def findings_read(run: Run) -> list[Finding]:
    """Return findings, open ones first, the most severe at the top."""
    return list(run.findings.select_related("dismissed_by").order_by(_ORDER, "-last_step", "rule", "key"))


def findings_list(run: Run, state: str = "") -> list[dict[str, Any]]:
    """Return the findings of `findings_read`, all or those in a state, as `finding_document`."""
    return [finding_document(row) for row in findings_read(run) if not state or row.state == state]


def finding_get(user: Person, run_id: str, pk: int) -> Finding:
    """Return one finding. Raises Http404."""
    finding = Finding.objects.filter(run=run_get(user, run_id), pk=pk).select_related("run__project").first()
    if finding is None:
        raise Http404(f"the run {run_id} has no finding {pk}")
    return finding


def finding_facts(finding: Finding) -> dict[str, Any]:
    """Return the finding's part of its event."""
    rule = RULES[finding.rule]
    return {
        "id": finding.pk,
        "rule": finding.rule,
        "key": finding.key,
        "severity": finding.severity,
        "title": finding.title,
        "first_step": finding.first_step,
        "action": finding.action,
        "cause": rule.cause,
        "remedy": rule.remedy,
        "page": settings.TROUPE_URL.rstrip("/") + reverse("health:page", args=[finding.run_id]),
    }


def finding_document(finding: Finding) -> dict[str, Any]:
    """Return a finding for the API and pages; JSON types only."""
    rule = RULES.get(finding.rule)
    figures = dict(finding.evidence.get("figures", []))
    return {
        "id": finding.pk,
        "rule": finding.rule,
        "key": finding.key,
        "state": finding.state,
        "severity": finding.severity,
        "title": finding.title,
        "first_step": finding.first_step,
        "last_step": finding.last_step,
        "figures": {
            name: spell(value) if isinstance(value, float) else value for name, value in figures.items()
        },
        "series": finding.evidence.get("series", []),
        "cause": rule.cause if rule else "",
        "remedy": rule.remedy if rule else "",
        "action": finding.action,
        "done": finding.done,
        "fork": finding.fork_id,
        "dismissed_by": finding.dismissed_by.username if finding.dismissed_by else None,
        "created_at": finding.created_at.isoformat(),
        "curves": reverse("runs:curves", args=[finding.run_id]),
    }
