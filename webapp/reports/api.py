"""Reports in the REST API."""

from typing import Annotated

from pydantic import Field
from rest_framework.request import Request

from troupe_client.documents import reports as documents
from webapp.accounts.permissions import Person
from webapp.api.routes import Routes
from webapp.reports import services
from webapp.reports.rendering import export_text
from webapp.reports.services import report_document, report_get, text_document, version_document, version_get
from webapp.runs.states import TransitionRefused
from webapp.shares.services import share_link, share_make

MOST = 500
routes = Routes()


class SavedSeparately(TransitionRefused):
    """Another save followed the base revision of a text, which is stored as a version only."""

    def __init__(self, saved: services.Saved) -> None:
        version = saved.version.number
        self.document = text_document(saved.report).model_dump(mode="json") | {"version": version}
        super().__init__(
            f"another save followed your base revision; your text is stored as version {version}"
        )


@routes.get("reports/", name="reports", operation_id="v1_reports_list")
def reports(user: Person) -> list[documents.Report]:
    """Return the reports of the caller's projects by latest change, without their texts."""
    return [report_document(report) for report in services.reports_visible(user)[:MOST]]


@routes.post("reports/", status=201)
def report_create(user: Person, body: documents.ReportBody) -> documents.ReportText:
    """Create a report."""
    project = services.project_to_write(user, body.project)
    return text_document(services.report_create(user, project, body.title, body.text))


@routes.get("reports/<int:pk>/", name="report")
def report(user: Person, pk: int) -> documents.ReportText:
    """Return the report with its text."""
    return text_document(report_get(user, pk))


@routes.put("reports/<int:pk>/", errors={409: documents.ReportConflict})
def report_save(user: Person, pk: int, body: documents.ReportTextBody) -> documents.SavedReport:
    """Save a text. Returns 409 if another save followed `base`: the response contains the unchanged report, and the submitted
    text is stored as the version named in it.
    """
    saved = services.report_save(user, report_get(user, pk), body.title, body.text, body.base)
    if saved.conflict:
        raise SavedSeparately(saved)
    return documents.SavedReport(**dict(report_document(saved.report)), version=saved.version.number)


@routes.delete("reports/<int:pk>/")
def report_delete(user: Person, pk: int) -> documents.DeletedReport:
    """Delete the report with all its versions."""
    report = report_get(user, pk)
    services.report_delete(user, report)
    return documents.DeletedReport(id=pk, title=report.title, deleted=True)


@routes.get("reports/<int:pk>/versions/", name="report-versions", operation_id="v1_reports_versions_list")
def report_versions(user: Person, pk: int) -> list[documents.ReportVersion]:
    """Return the versions newest first, without their texts."""
    return [version_document(row) for row in report_get(user, pk).versions.select_related("author")]


@routes.get("reports/<int:pk>/versions/<int:number>/", name="report-version")
def report_version(user: Person, pk: int, number: int) -> documents.ReportVersionText:
    """Return the version with its text."""
    version = version_get(report_get(user, pk), number)
    return documents.ReportVersionText(**dict(version_document(version)), text=version.text)


@routes.post("reports/<int:pk>/versions/<int:number>/restore/", name="report-restore")
def version_restore(user: Person, pk: int, number: int) -> documents.ReportText:
    """Restore the text of a version, as a new version."""
    return text_document(services.version_restore(user, version_get(report_get(user, pk), number)))


@routes.get("reports/<int:pk>/export/", name="report-export")
def report_export(
    user: Person,
    pk: int,
    kind: Annotated[
        documents.Format, Field(alias="as", description="Markdown, or a self-contained page.")
    ] = "md",
) -> documents.ReportExport:
    """Return the report as a file's text."""
    return documents.ReportExport(**{"as": kind, "text": export_text(report_get(user, pk), kind)})


@routes.post("reports/<int:pk>/share/", name="report-share", status=201, admin=True)
def report_share(
    user: Person, request: Request, pk: int, body: documents.ReportShareBody
) -> documents.ReportShare:
    """Create a read-only link to a report; `link` is returned only in this response."""
    report = report_get(user, pk)
    share, secret = share_make(user, report.project, "report", str(pk), report.title, body.days)
    return documents.ReportShare(share=share.pk, link=share_link(request, secret))
