"""URLs of the webhook pages."""

from django.urls import path

from webapp.webhooks import views

app_name = "webhooks"
BASE = "account/projects/<slug:slug>/webhooks/"
urlpatterns = [
    path(BASE, views.webhooks_page, name="list"),
    path(f"{BASE}<int:pk>/", views.webhook_page, name="page"),
    path(f"{BASE}<int:pk>/deliveries/<int:delivery>/again/", views.delivery_act, name="again"),
    path(f"{BASE}<int:pk>/<slug:act>/", views.webhook_act, name="act"),
]
