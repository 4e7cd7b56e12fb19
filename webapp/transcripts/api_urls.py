"""URLs of the transcripts API, below /api/v1/."""

from django.urls import path

from webapp.transcripts import api, groups_api, probes_api, queries_api, tokens_api

urlpatterns = [
    path("runs/<str:run_id>/episodes/", api.RunEpisodes.as_view(), name="run-episodes"),
    path("episodes/<int:pk>/", api.EpisodeDetail.as_view(), name="episode"),
    path("runs/<str:run_id>/episodes/export/", api.EpisodeExport.as_view(), name="episodes-export"),
    path(
        "runs/<str:run_id>/episodes/complete/",
        queries_api.QueryCompletion.as_view(),
        name="episodes-complete",
    ),
    path("runs/<str:run_id>/episodes/curve/", queries_api.EpisodeCurve.as_view(), name="episodes-curve"),
    path("runs/<str:run_id>/episodes/table/", queries_api.EpisodeTable.as_view(), name="episodes-table"),
    path(
        "runs/<str:run_id>/episodes/table/export/",
        queries_api.EpisodeTableExport.as_view(),
        name="episodes-table-export",
    ),
    path("queries/", queries_api.SavedQueries.as_view(), name="queries"),
    path("queries/<int:pk>/", queries_api.SavedQueryDetail.as_view(), name="query"),
    path("runs/<str:run_id>/probes/", probes_api.RunProbes.as_view(), name="run-probes"),
    path("episodes/<int:pk>/diff/<int:other>/", probes_api.EpisodeDifference.as_view(), name="episode-diff"),
    path("episodes/<int:pk>/tree/", groups_api.EpisodeTree.as_view(), name="episode-tree"),
    path("episodes/<int:pk>/groups/<int:turn>/", groups_api.EpisodeGroup.as_view(), name="episode-group"),
    path(
        "episodes/<int:pk>/turns/<int:turn>/tokens/", tokens_api.AnswerTokens.as_view(), name="answer-tokens"
    ),
    path("episodes/<int:pk>/boards/", tokens_api.EpisodeBoards.as_view(), name="episode-boards"),
    path("episodes/<int:pk>/notes/", api.EpisodeNotes.as_view(), name="episode-notes"),
    path(
        "episodes/<int:pk>/notes/<int:note>/remove/",
        api.EpisodeNoteRemove.as_view(),
        name="episode-note-remove",
    ),
]
