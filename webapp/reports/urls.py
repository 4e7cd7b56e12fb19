"""URLs of the report pages, below /reports/."""

from django.urls import path

from webapp.reports import views

app_name = "reports"
urlpatterns = [
    path("", views.reports_page, name="list"),
    path("new/", views.report_new, name="new"),
    path("<int:pk>/", views.report_page, name="page"),
    path("<int:pk>/edit/", views.report_edit, name="edit"),
    path("<int:pk>/preview/", views.report_preview, name="preview"),
    path("<int:pk>/versions/", views.versions_page, name="versions"),
    path("<int:pk>/versions/<int:number>/restore/", views.version_back, name="restore"),
    path("<int:pk>/export/", views.report_export, name="export"),
    path("<int:pk>/share/", views.report_share, name="share"),
    path("<int:pk>/delete/", views.report_remove, name="delete"),
]
