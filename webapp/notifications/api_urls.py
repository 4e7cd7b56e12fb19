"""URLs of the API of webhooks and channels, below /api/v1/."""

from django.urls import path

from webapp.notifications import api

WEBHOOKS, CHANNELS = "projects/<slug:slug>/webhooks/", "projects/<slug:slug>/channels/"
urlpatterns = [
    path(WEBHOOKS, api.Webhooks.as_view(), name="webhooks"),
    *(
        path(f"{WEBHOOKS}<int:pk>/{act}/", api.WebhookAct.as_view(act=act), name=f"webhook-{act}")
        for act in ("ping", "on", "off", "remove")
    ),
    path(f"{WEBHOOKS}<int:pk>/deliveries/", api.Deliveries.as_view(), name="deliveries"),
    path(
        f"{WEBHOOKS}<int:pk>/deliveries/<int:delivery>/again/",
        api.DeliveryAgain.as_view(),
        name="delivery-again",
    ),
    path(CHANNELS, api.Channels.as_view(), name="channels"),
    *(
        path(f"{CHANNELS}<int:pk>/{act}/", api.ChannelAct.as_view(act=act), name=f"channel-{act}")
        for act in ("try", "remove")
    ),
]
