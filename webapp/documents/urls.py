"""URLs of the documentation, below /docs/."""

from django.urls import path

from webapp.documents import views

app_name = "documents"
urlpatterns = [
    path("", views.page, name="start"),
    path("images/<str:name>", views.image, name="image"),
    path("explain/<slug:kind>/", views.explain, name="explain"),
    path("<slug:slug>/", views.page, name="page"),
]
