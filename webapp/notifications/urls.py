"""URLs of the pages of a project's destinations. They are called webhooks, the first kind: links to them stay valid."""

from django.urls import path

from webapp.notifications import views

app_name = "notifications"
BASE = "account/projects/<slug:slug>/webhooks/"
urlpatterns = [
    path(BASE, views.destinations_page, name="list"),
    path(f"{BASE}<int:pk>/", views.destination_page, name="page"),
    path(f"{BASE}<int:pk>/deliveries/<int:delivery>/again/", views.delivery_act, name="again"),
    path(f"{BASE}<int:pk>/<slug:act>/", views.destination_act, name="act"),
]
