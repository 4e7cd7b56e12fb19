"""URLs of links: following one, and a project's list."""

from django.urls import path

from webapp.shares import views

app_name = "shares"
urlpatterns = [
    path("shared/<str:secret>/", views.share_open, name="open"),
    path("account/projects/<slug:slug>/shares/", views.shares_page, name="list"),
    path("account/projects/<slug:slug>/shares/<int:pk>/revoke/", views.share_end, name="revoke"),
]
