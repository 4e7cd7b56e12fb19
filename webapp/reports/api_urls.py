"""URLs of the reports API, below /api/v1/."""

from django.urls import path

from webapp.reports import api

urlpatterns = [
    path("reports/", api.Reports.as_view(), name="reports"),
    path("reports/<int:pk>/", api.ReportDetail.as_view(), name="report"),
    path("reports/<int:pk>/versions/", api.ReportVersions.as_view(), name="report-versions"),
    path("reports/<int:pk>/versions/<int:number>/", api.ReportVersionDetail.as_view(), name="report-version"),
    path(
        "reports/<int:pk>/versions/<int:number>/restore/", api.ReportRestore.as_view(), name="report-restore"
    ),
    path("reports/<int:pk>/export/", api.ReportExport.as_view(), name="report-export"),
    path("reports/<int:pk>/share/", api.ReportShare.as_view(), name="report-share"),
]
