"""URLs of the scheduling API, below /api/v1/."""

from django.urls import path

from webapp.scheduling import api, client_api

urlpatterns = [
    path("runs/<str:run_id>/stop/", api.RunAct.as_view(act="stop"), name="run-stop"),
    path("runs/<str:run_id>/pause/", api.RunAct.as_view(act="pause"), name="run-pause"),
    path("runs/<str:run_id>/resume/", api.RunResume.as_view(), name="run-resume"),
    path("runs/<str:run_id>/checkpoints/<str:name>/fork/", api.Fork.as_view(), name="checkpoint-fork"),
    path("client-runs/", client_api.ClientRuns.as_view(), name="client-runs"),
]
