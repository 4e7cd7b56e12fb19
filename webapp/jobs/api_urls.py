"""URLs of the jobs API, below /api/v1/."""

from django.urls import path

from webapp.jobs import api

urlpatterns = [
    path("jobs/", api.Jobs.as_view(), name="jobs"),
    path("jobs/<str:pk>/", api.JobDetail.as_view(), name="job"),
    path("jobs/<str:pk>/cancel/", api.JobCancel.as_view(), name="job-cancel"),
    path("jobs/<str:pk>/say/", api.JobSay.as_view(), name="job-say"),
]
