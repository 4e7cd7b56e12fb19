"""URLs of the checkpoint API, below /api/v1/."""

from django.urls import path

from webapp.checkpoints import api

urlpatterns = [
    path("runs/<str:run_id>/checkpoints/", api.RunCheckpoints.as_view(), name="run-checkpoints"),
    path("runs/<str:run_id>/lineage/", api.Lineage.as_view(), name="lineage"),
    path(
        "runs/<str:run_id>/checkpoints/<str:name>/download/",
        api.Downloading.as_view(),
        name="checkpoint-download",
    ),
    path("runs/<str:run_id>/prune/", api.Prune.as_view(), name="checkpoints-prune"),
    *(
        path(
            f"runs/<str:run_id>/checkpoints/<str:name>/{act}/",
            api.CheckpointAct.as_view(act=act),
            name=f"checkpoint-{act}",
        )
        for act in ("pin", "unpin", "delete")
    ),
]
