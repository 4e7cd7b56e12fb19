"""Reports and their versions: what a user sees and changes. Every submitted text is stored."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.core.exceptions import PermissionDenied
from django.db import transaction
from django.db.models import QuerySet
from django.http import Http404
from django.urls import reverse
from django.utils import timezone

from training_core.errors import ConfigError
from troupe_client.documents import reports as documents
from webapp.accounts.audit import audit_note
from webapp.accounts.models import Project, User
from webapp.accounts.permissions import Person, Visitor, can_edit
from webapp.accounts.selectors import project_default, project_named, projects_visible
from webapp.reports.models import Report, ReportVersion

TOGETHER = timedelta(minutes=2)
"""Saves of one author within this time share one version, with the last text."""
Kind = ReportVersion.Kind


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


def project_to_write(user: Person, name: str) -> Project:
    """Return the named project, or the user's default. Raises Http404; PermissionDenied without a project."""
    project = project_named(user, name) if name else project_default(user)
    if project is None:
        raise PermissionDenied("you cannot write in any project; ask an owner for the editor level")
    return project


def report_document(report: Report) -> documents.Report:
    """Return the document of a report of `reports_visible`, without its text."""
    return documents.Report.of_row(report, **_names(report))


def text_document(report: Report) -> documents.ReportText:
    """Return the document of a report of `reports_visible`."""
    return documents.ReportText.of_row(report, **_names(report))


def _names(report: Report) -> dict[str, Any]:
    author = report.author.username if report.author else ""
    links = {"page": reverse("reports:page", args=[report.pk])}
    return {"project": report.project.slug, "author": author, "links": links}


def version_document(version: ReportVersion) -> documents.ReportVersion:
    """Return the document of a version, without its text."""
    author = version.author.username if version.author else ""
    return documents.ReportVersion.of_row(version, author=author, characters=len(version.text))


@dataclass(frozen=True)
class Saved:
    """Result of a save: the version with the text, and whether another user had saved in between."""

    report: Report
    version: ReportVersion
    conflict: bool


@transaction.atomic
def report_create(user: Person, project: Project, title: str, text: str = "") -> Report:
    """Create a report with its first version. Raises PermissionDenied for viewers, ConfigError."""
    _may(user, project)
    title, text = _checked(title, text)
    report = Report.objects.create(project=project, author=_author(user), title=title, text=text)
    _version(report, user, title, text, Kind.SAVED)
    audit_note(user, project, "report.make", str(report.pk), title=title)
    return report


@transaction.atomic
def report_save(user: Person, report: Report, title: str, text: str, base: int) -> Saved:
    """Save a text based on revision `base`.

    If another save followed `base`, the report is unchanged, and the text is stored as a separate version. Raises
    PermissionDenied, ConfigError.
    """
    _may(user, report.project)
    title, text = _checked(title, text)
    report = Report.objects.select_for_update().select_related("project").get(pk=report.pk)
    if (title, text) == (report.title, report.text):
        newest = report.versions.filter(kind=Kind.SAVED).first()
        assert newest is not None  # a report is created with one
        return Saved(report, newest, False)
    if base != report.revision:
        return Saved(report, _keep(report, user, title, text, Kind.CONFLICT), True)
    report.title, report.text, report.revision = title, text, report.revision + 1
    report.updated_at = timezone.now()
    report.save()
    return Saved(report, _keep(report, user, title, text, Kind.SAVED), False)


@transaction.atomic
def version_restore(user: Person, version: ReportVersion) -> Report:
    """Restore the text of a version, as a new version. Raises PermissionDenied."""
    _may(user, version.report.project)
    report = Report.objects.select_for_update().select_related("project").get(pk=version.report_id)
    report.title, report.text, report.revision = version.title, version.text, report.revision + 1
    report.updated_at = timezone.now()
    report.save()
    _version(report, user, version.title, version.text, Kind.SAVED)
    audit_note(user, report.project, "report.restore", str(report.pk), version=version.number)
    return report


@transaction.atomic
def report_delete(user: Person, report: Report) -> None:
    """Delete a report with all its versions. Raises PermissionDenied."""
    _may(user, report.project)
    audit_note(user, report.project, "report.delete", str(report.pk), title=report.title)
    report.delete()


def _keep(report: Report, user: Person, title: str, text: str, kind: str) -> ReportVersion:
    """Store the text in the author's newest version if that is recent and of the same kind, else in a new one."""
    newest = report.versions.first()
    now = timezone.now()
    if not (newest and _extends(newest, user, kind, now)):
        version = _version(report, user, title, text, kind)
        audit_note(user, report.project, "report.edit", str(report.pk), version=version.number, kind=kind)
        return version
    newest.title, newest.text, newest.updated_at = title, text, now
    newest.save()
    return newest


def _extends(newest: ReportVersion, user: Person, kind: str, now: datetime) -> bool:
    """Whether a save extends the newest version; never the first one, and not beyond TOGETHER."""
    own = newest.author_id is not None and newest.author_id == user.pk and newest.kind == kind
    return own and newest.number > 1 and now - newest.created_at < TOGETHER


def _version(report: Report, user: Person, title: str, text: str, kind: str) -> ReportVersion:
    newest, now = report.versions.first(), timezone.now()
    return ReportVersion.objects.create(
        report=report, number=newest.number + 1 if newest else 1, author=_author(user), title=title, text=text,
        kind=kind, created_at=now, updated_at=now,
    )  # fmt: skip


def _may(user: Person, project: Project) -> None:
    if not can_edit(user, project):
        raise PermissionDenied("only owners and editors of the project can write its reports")


def _author(user: Person) -> User | None:
    return user if isinstance(user, User) else None


def _checked(title: str, text: str) -> tuple[str, str]:
    title, text = " ".join(title.split()) or "Untitled", text.replace("\r\n", "\n")
    if "\0" in title + text:
        raise ConfigError({"text": "text cannot contain NUL characters"})
    if len(title) > 200:
        raise ConfigError({"title": "at most 200 characters"})
    if len(text) > documents.LONGEST:
        raise ConfigError({"text": f"at most {documents.LONGEST:,} characters; this has {len(text):,}"})
    return title, text
