"""URLs of the accounts API, below /api/v1/."""

from django.urls import path

from webapp.accounts import api

urlpatterns = [
    path("projects/", api.Projects.as_view(), name="projects"),
    path("projects/<slug:slug>/members/", api.Members.as_view(), name="members"),
    path(
        "projects/<slug:slug>/members/<str:username>/remove/",
        api.MemberRemove.as_view(),
        name="member-remove",
    ),
    path("projects/<slug:slug>/tokens/", api.ProjectTokens.as_view(), name="project-tokens"),
    path("projects/<slug:slug>/audit/", api.Audit.as_view(), name="audit"),
]
