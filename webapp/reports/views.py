"""Pages of reports: read, write, go back to an older version, take along, share."""

from typing import Any

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from training_core.errors import ConfigError
from webapp.accounts.permissions import Visitor, can_edit
from webapp.accounts.selectors import project_default, project_get, projects_editable
from webapp.reports.export import export_answer
from webapp.reports.forms import ReportForm
from webapp.reports.models import Report
from webapp.reports.rendering import report_parts
from webapp.reports.selectors import report_get, reports_visible, version_get
from webapp.reports.services import report_create, report_delete, report_save, version_restore
from webapp.shares.services import share_make, share_path
from webapp.transcripts.probes import parts_differ

MOST = 200
"""Reports of the list."""


@login_required
@require_GET
def reports_page(request: HttpRequest) -> HttpResponse:
    """All reports that the user may read."""
    context = {
        "place": "reports",
        "reports": reports_visible(request.user)[:MOST],
        "projects": projects_editable(request.user),
    }
    return render(request, "reports/list.html", context)


@login_required
@require_POST
def report_new(request: HttpRequest) -> HttpResponse:
    """Make one and go on writing it; the text may come along, from a page that is to be cited."""
    form = ReportForm(request.POST)
    form.is_valid()
    slug = form.cleaned_data.get("project")
    project = project_get(request.user, slug) if slug else project_default(request.user)
    if project is None:
        raise PermissionDenied("you may write in no project; ask an owner for the editor level")
    report = report_create(
        request.user, project, form.cleaned_data.get("title") or "", form.cleaned_data.get("text") or ""
    )
    return redirect("reports:edit", pk=report.pk)


@login_required
@require_GET
def report_page(request: HttpRequest, pk: int) -> HttpResponse:
    """The report, or with ?version= one of its versions."""
    return render(request, "reports/page.html", _shown(request, report_get(request.user, pk)))


def _shown(request: HttpRequest, report: Report) -> dict[str, Any]:
    # What is shared is the report, not what it once was.
    number = "" if isinstance(request.user, Visitor) else request.GET.get("version", "")
    version = version_get(report, int(number)) if number.isdecimal() and len(number) < 10 else None
    return {
        "place": "reports",
        "report": report,
        "version": version,
        "title": version.title if version else report.title,
        "parts": report_parts(report.project, version.text if version else report.text),
        "can_edit": can_edit(request.user, report.project),
    }


@never_cache
@login_required
@require_http_methods(["GET", "POST"])
def report_edit(request: HttpRequest, pk: int) -> HttpResponse:
    """The editor. What it posts by itself goes through the API; this is for browsers without scripts."""
    report = _editable(request, pk)
    context = {"place": "reports", "report": report, "title": report.title, "text": report.text}
    if request.method == "POST":
        form = ReportForm(request.POST)
        form.is_valid()
        title, text = form.cleaned_data.get("title") or "", form.cleaned_data.get("text") or ""
        try:
            saved = report_save(request.user, report, title, text, form.cleaned_data.get("base") or 0)
        except ConfigError as error:
            return render(
                request, "reports/edit.html", context | {"text": text, "wrong": str(error)}, status=400
            )
        if not saved.conflict:
            return redirect("reports:page", pk=pk)
        context |= {"report": saved.report, "text": text, "title": title, "beside": saved.version}
        return render(request, "reports/edit.html", context, status=409)
    return render(request, "reports/edit.html", context)


@login_required
@require_POST
def report_preview(request: HttpRequest, pk: int) -> HttpResponse:
    """What a text that is being written looks like."""
    report = _editable(request, pk)
    parts = report_parts(report.project, request.POST.get("text", "").replace("\0", ""))
    return render(request, "reports/_parts.html", {"parts": parts})


@login_required
@require_GET
def versions_page(request: HttpRequest, pk: int) -> HttpResponse:
    """Every version, and with ?version= what it says differently from the report as it is."""
    report = report_get(request.user, pk)
    context = _shown(request, report) | {"versions": report.versions.select_related("author")}
    if version := context["version"]:
        context["differs"] = parts_differ(version.text, report.text)
    return render(request, "reports/versions.html", context)


@login_required
@require_POST
def version_back(request: HttpRequest, pk: int, number: int) -> HttpResponse:
    """An old text becomes the report again."""
    version_restore(request.user, version_get(report_get(request.user, pk), number))
    messages.success(
        request, f"Version {number} is the report again; what was there is a version of its own."
    )
    return redirect("reports:page", pk=pk)


@login_required
@require_GET
def report_export(request: HttpRequest, pk: int) -> HttpResponse:
    """As a file: Markdown as it was written, or a page with everything in it."""
    return export_answer(report_get(request.user, pk), request.GET.get("as") or "md")


@never_cache
@login_required
@require_POST
def report_share(request: HttpRequest, pk: int) -> HttpResponse:
    """A read-only link, shown in the answer to its own POST and never again."""
    report = report_get(request.user, pk)
    _, secret = share_make(request.user, report.project, "report", str(pk), title=report.title)
    link = request.build_absolute_uri(share_path(secret))
    return render(request, "reports/page.html", _shown(request, report) | {"link": link})


@login_required
@require_POST
def report_remove(request: HttpRequest, pk: int) -> HttpResponse:
    """With all its versions."""
    report = report_get(request.user, pk)
    report_delete(request.user, report)
    messages.success(request, f"The report {report.title} is deleted.")
    return redirect(reverse("reports:list"))


def _editable(request: HttpRequest, pk: int) -> Report:
    report = report_get(request.user, pk)
    if not can_edit(request.user, report.project):
        raise PermissionDenied("only owners and editors of the project write its reports")
    return report
