"""Reports in the REST API."""

from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from webapp.accounts.selectors import project_chosen
from webapp.api.queries import choice
from webapp.api.schema import JSON, parameter
from webapp.reports.export import FORMATS, export_text
from webapp.reports.selectors import (
    report_document,
    report_get,
    reports_visible,
    version_document,
    version_get,
)
from webapp.reports.services import LONGEST, report_create, report_delete, report_save, version_restore
from webapp.shares.services import DAYS, share_make, share_path
from webapp.shares.services import LONGEST as LONGEST_DAYS

MOST = 500


class NewReport(serializers.Serializer[Any]):
    """The fields of a new report."""

    title = serializers.CharField(max_length=200, default="", allow_blank=True)
    text = serializers.CharField(
        max_length=LONGEST, default="", allow_blank=True, trim_whitespace=False, help_text="Markdown"
    )
    project = serializers.SlugField(default="", allow_blank=True, help_text="default: your oldest")


class ReportText(serializers.Serializer[Any]):
    """A text to save."""

    title = serializers.CharField(max_length=200, allow_blank=True)
    text = serializers.CharField(max_length=LONGEST, allow_blank=True, trim_whitespace=False)
    base = serializers.IntegerField(min_value=1, help_text="the revision it is based on")


class ShareDays(serializers.Serializer[Any]):
    """The lifetime of a link."""

    days = serializers.IntegerField(
        min_value=1,
        max_value=LONGEST_DAYS,
        default=DAYS,
        allow_null=True,
        help_text="null: until it is revoked",
    )


class Reports(APIView):
    """Reports of the caller's projects."""

    @extend_schema(operation_id="v1_reports_list", responses=JSON)
    def get(self, request: Request) -> Response:
        """Return the reports by latest change, without their texts."""
        return Response(
            {"results": [report_document(report) for report in reports_visible(request.user)[:MOST]]}
        )

    @extend_schema(request=NewReport, responses={201: JSON, 400: JSON})
    def post(self, request: Request) -> Response:
        """Make one."""
        fields = _given(NewReport, request)
        project = project_chosen(request.user, fields["project"])
        report = report_create(request.user, project, fields["title"], fields["text"])
        return Response(report_document(report, whole=True), status=201)


class ReportDetail(APIView):
    """One report."""

    @extend_schema(responses=JSON)
    def get(self, request: Request, pk: int) -> Response:
        """Return the report with its text."""
        return Response(report_document(report_get(request.user, pk), whole=True))

    @extend_schema(request=ReportText, responses={200: JSON, 400: JSON, 409: JSON})
    def put(self, request: Request, pk: int) -> Response:
        """Save {"title", "text", "base"}. Returns 409 if another save followed `base`: the response contains the unchanged report,
        and the submitted text is stored as the version named in it.
        """
        fields = _given(ReportText, request)
        saved = report_save(
            request.user, report_get(request.user, pk), fields["title"], fields["text"], fields["base"]
        )
        answer = report_document(saved.report, whole=saved.conflict) | {"version": saved.version.number}
        if saved.conflict:
            detail = f"another save followed your base revision; your text is stored as version {saved.version.number}"
            return Response(answer | {"detail": detail}, status=409)
        return Response(answer)

    @extend_schema(responses=JSON)
    def delete(self, request: Request, pk: int) -> Response:
        """Delete the report with all its versions."""
        report = report_get(request.user, pk)
        report_delete(request.user, report)
        return Response({"id": pk, "title": report.title, "deleted": True})


class ReportVersions(APIView):
    """Versions of a report."""

    @extend_schema(operation_id="v1_reports_versions_list", responses=JSON)
    def get(self, request: Request, pk: int) -> Response:
        """Return the versions newest first, without their texts."""
        rows = report_get(request.user, pk).versions.select_related("author")
        return Response({"results": [version_document(version) for version in rows]})


class ReportVersionDetail(APIView):
    """One version of a report."""

    @extend_schema(responses=JSON)
    def get(self, request: Request, pk: int, number: int) -> Response:
        """Return the version with its text."""
        return Response(version_document(version_get(report_get(request.user, pk), number), whole=True))


class ReportRestore(APIView):
    """Restoration of a version."""

    @extend_schema(request=None, responses=JSON)
    def post(self, request: Request, pk: int, number: int) -> Response:
        """Restore the text of a version, as a new version."""
        version = version_get(report_get(request.user, pk), number)
        return Response(report_document(version_restore(request.user, version), whole=True))


class ReportExport(APIView):
    """Export of a report."""

    @extend_schema(
        parameters=[parameter("as", str, "md (Markdown, the default) or html (a self-contained page)")],
        responses=JSON,
    )
    def get(self, request: Request, pk: int) -> Response:
        """{"as", "text"}."""
        kind = choice(request, "as", list(FORMATS)) or "md"
        return Response({"as": kind, "text": export_text(report_get(request.user, pk), kind)})


class ReportShare(APIView):
    """A read-only link to a report."""

    @extend_schema(request=ShareDays, responses={201: JSON})
    def post(self, request: Request, pk: int) -> Response:
        """Create a link; `link` is returned only in this response."""
        report = report_get(request.user, pk)
        days = _given(ShareDays, request)["days"]
        share, secret = share_make(request.user, report.project, "report", str(pk), report.title, days)
        link = request.build_absolute_uri(share_path(secret))
        return Response({"share": share.pk, "link": link}, status=201)


def _given(kind: type[serializers.Serializer[Any]], request: Request) -> dict[str, Any]:
    wanted = kind(data=request.data)
    wanted.is_valid(raise_exception=True)
    values: dict[str, Any] = wanted.validated_data
    return values
