"""URLs of the webhook API, below /api/v1/."""

from django.urls import path

from webapp.webhooks import api

BASE = "projects/<slug:slug>/webhooks/"
urlpatterns = [
    path(BASE, api.Webhooks.as_view(), name="webhooks"),
    *(
        path(f"{BASE}<int:pk>/{act}/", api.WebhookAct.as_view(act=act), name=f"webhook-{act}")
        for act in ("ping", "on", "off", "remove")
    ),
    path(f"{BASE}<int:pk>/deliveries/", api.Deliveries.as_view(), name="deliveries"),
    path(
        f"{BASE}<int:pk>/deliveries/<int:delivery>/again/", api.DeliveryAgain.as_view(), name="delivery-again"
    ),
]
