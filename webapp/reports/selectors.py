"""Reading reports."""

from typing import Any

from django.db.models import QuerySet
from django.http import Http404
from django.urls import reverse

from webapp.accounts.permissions import Person, Visitor
from webapp.accounts.selectors import projects_visible
from webapp.reports.models import Report, ReportVersion


def reports_visible(user: Person) -> QuerySet[Report]:
    """Return the reports of the user's projects, by latest change."""
    return Report.objects.filter(project__in=projects_visible(user)).select_related("project", "author")


def report_get(user: Person, pk: int) -> Report:
    """Return one report, or the one shared with a visitor. Raises Http404, also for projects that are not visible to the user."""
    reports = reports_visible(user)
    if isinstance(user, Visitor) and user.came_for("report", str(pk)):
        reports = Report.objects.filter(project=user.project).select_related("project", "author")
    report = reports.filter(pk=pk).first()
    if report is None:
        raise Http404(f"there is no report {pk} that is visible to you")
    return report


def version_get(report: Report, number: int) -> ReportVersion:
    """Return one of its versions. Raises Http404."""
    version = report.versions.select_related("author", "report__project").filter(number=number).first()
    if version is None:
        raise Http404(f"there is no version {number} of this report")
    return version


def report_document(report: Report, whole: bool = False) -> dict[str, Any]:
    """Return a report as JSON; with its text if `whole`."""
    return {
        "id": report.pk,
        "title": report.title,
        "project": report.project.slug,
        "author": report.author.username if report.author else "",
        "revision": report.revision,
        "created_at": report.created_at.isoformat(),
        "updated_at": report.updated_at.isoformat(),
        "links": {"page": reverse("reports:page", args=[report.pk])},
        **({"text": report.text} if whole else {}),
    }


def version_document(version: ReportVersion, whole: bool = False) -> dict[str, Any]:
    """Return a version as JSON; with its text if `whole`."""
    return {
        "number": version.number,
        "kind": version.kind,
        "title": version.title,
        "author": version.author.username if version.author else "",
        "characters": len(version.text),
        "created_at": version.created_at.isoformat(),
        "updated_at": version.updated_at.isoformat(),
        **({"text": version.text} if whole else {}),
    }
