"""Pages of reports: read, write, restore a version, export, share."""

from collections.abc import Callable
from functools import cache
from typing import Any
from urllib.parse import urlsplit

from django import forms
from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from training_core.errors import ConfigError
from webapp.accounts.permissions import Visitor, can_edit
from webapp.accounts.selectors import projects_editable
from webapp.reports.models import Report
from webapp.reports.rendering import export_answer, report_parts
from webapp.reports.services import (
    project_to_write,
    report_create,
    report_delete,
    report_get,
    report_save,
    reports_visible,
    version_get,
    version_restore,
)
from webapp.shares.access import GRANTS, address_opens
from webapp.shares.services import share_link, share_make
from webapp.transcripts.probes import parts_differ


class ReportForm(forms.Form):
    """A title and a text, with the revision they are based on."""

    title = forms.CharField(max_length=200, required=False)
    text = forms.CharField(required=False, strip=False)
    base = forms.IntegerField(required=False, min_value=1, max_value=2**31 - 1)
    project = forms.SlugField(required=False)


MOST = 200
"""Number of reports in the list."""


@require_GET
def reports_page(request: HttpRequest) -> HttpResponse:
    """List all reports that are visible to the user."""
    context = {
        "place": "reports",
        "reports": reports_visible(request.user)[:MOST],
        "projects": projects_editable(request.user),
    }
    return render(request, "reports/list.html", context)


@require_POST
def report_new(request: HttpRequest) -> HttpResponse:
    """Create a report and redirect to its editor; a page that cites itself may post the initial text."""
    form = ReportForm(request.POST)
    form.is_valid()
    project = project_to_write(request.user, form.cleaned_data.get("project") or "")
    report = report_create(
        request.user, project, form.cleaned_data.get("title") or "", form.cleaned_data.get("text") or ""
    )
    return redirect("reports:edit", pk=report.pk)


@require_GET
def report_page(request: HttpRequest, pk: int) -> HttpResponse:
    """Show the report, or with ?version= one of its versions."""
    return render(request, "reports/page.html", _shown(request, report_get(request.user, pk)))


def _shown(request: HttpRequest, report: Report) -> dict[str, Any]:
    # Only the current report is shared, not its versions.
    number = "" if isinstance(request.user, Visitor) else request.GET.get("version", "")
    version = version_get(report, int(number)) if number.isdecimal() and len(number) < 10 else None
    return {
        "place": "reports",
        "report": report,
        "version": version,
        "title": version.title if version else report.title,
        "parts": report_parts(report.project, version.text if version else report.text, _closed(request)),
        "can_edit": can_edit(request.user, report.project),
    }


def _closed(request: HttpRequest) -> Callable[[str], bool]:
    """Return whether an address is one of this site that the guest's links do not open; false for members."""
    digests = request.session.get(GRANTS, []) if isinstance(request.user, Visitor) else []

    @cache
    def closed(address: str) -> bool:
        if not digests or not address or address.startswith("#"):
            return False
        try:
            whole = urlsplit(request.build_absolute_uri(address))
        except ValueError:  # no address, such as http://[host:port]/: the link leads nowhere
            return False
        return whole.netloc == request.get_host() and not address_opens(
            digests, whole._replace(scheme="", netloc="").geturl()
        )

    return closed


@never_cache
@require_http_methods(["GET", "POST"])
def report_edit(request: HttpRequest, pk: int) -> HttpResponse:
    """Show the editor. Automatic saves use the API; the POST is for browsers without scripts."""
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
        context |= {"report": saved.report, "text": text, "title": title, "separate": saved.version}
        return render(request, "reports/edit.html", context, status=409)
    return render(request, "reports/edit.html", context)


@require_POST
def report_preview(request: HttpRequest, pk: int) -> HttpResponse:
    """Render a text in preparation."""
    report = _editable(request, pk)
    parts = report_parts(report.project, request.POST.get("text", "").replace("\0", ""))
    return render(request, "reports/_parts.html", {"parts": parts})


@require_GET
def versions_page(request: HttpRequest, pk: int) -> HttpResponse:
    """Show every version, and with ?version= its differences from the current report."""
    report = report_get(request.user, pk)
    context = _shown(request, report) | {"versions": report.versions.select_related("author")}
    if version := context["version"]:
        context["differs"] = parts_differ(version.text, report.text)
    return render(request, "reports/versions.html", context)


@require_POST
def version_back(request: HttpRequest, pk: int, number: int) -> HttpResponse:
    """Restore a version."""
    version_restore(request.user, version_get(report_get(request.user, pk), number))
    messages.success(
        request, f"Version {number} is restored; the previous text is stored as a separate version."
    )
    return redirect("reports:page", pk=pk)


@require_GET
def report_export(request: HttpRequest, pk: int) -> HttpResponse:
    """Download the report: the original Markdown, or a self-contained page."""
    return export_answer(report_get(request.user, pk), request.GET.get("as") or "md")


@never_cache
@require_POST
def report_share(request: HttpRequest, pk: int) -> HttpResponse:
    """Create a read-only link, shown only in the response to its own POST."""
    report = report_get(request.user, pk)
    _, secret = share_make(request.user, report.project, "report", str(pk), title=report.title)
    link = share_link(request, secret)
    return render(request, "reports/page.html", _shown(request, report) | {"link": link})


@require_POST
def report_remove(request: HttpRequest, pk: int) -> HttpResponse:
    """Delete the report with all its versions."""
    report = report_get(request.user, pk)
    report_delete(request.user, report)
    messages.success(request, f"The report {report.title} is deleted.")
    return redirect(reverse("reports:list"))


def _editable(request: HttpRequest, pk: int) -> Report:
    report = report_get(request.user, pk)
    if not can_edit(request.user, report.project):
        raise PermissionDenied("only owners and editors of the project can write its reports")
    return report
