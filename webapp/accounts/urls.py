"""URLs of the account pages."""

from django.contrib.auth.views import LogoutView
from django.urls import path

from webapp.accounts import views

app_name = "accounts"
urlpatterns = [
    path("login/", views.Login.as_view(), name="login"),
    path("logout/", LogoutView.as_view(), name="logout"),
    path("link/<str:secret>/", views.link, name="link"),
    path("tokens/", views.tokens, name="tokens"),
    path("tokens/<int:pk>/revoke/", views.token_end, name="token-revoke"),
    path("projects/", views.projects, name="projects"),
    path("projects/<slug:slug>/members/", views.members, name="members"),
    path("projects/<slug:slug>/members/<int:user_id>/remove/", views.member_end, name="member-remove"),
    path("projects/<slug:slug>/tokens/", views.tokens_page, name="project-tokens"),
    path("projects/<slug:slug>/audit/", views.audit_page, name="audit"),
    path("password/", views.password, name="password"),
]
