"""URLs of the job pages."""

from django.urls import path

from webapp.jobs import form_check, views

app_name = "jobs"
urlpatterns = [
    path("jobs/", views.jobs_page, name="list"),
    path("experiments/check/", form_check.form_preview, name="form-preview"),
    path("jobs/start/<str:kind>/", views.job_new, name="start"),
    path("jobs/<str:pk>/", views.job_page, name="page"),
    path("jobs/<str:pk>/fragment/", views.job_fragment, name="fragment"),
    path("jobs/<str:pk>/cancel/", views.job_end, name="cancel"),
    path("jobs/<str:pk>/say/", views.job_speak, name="say"),
]
