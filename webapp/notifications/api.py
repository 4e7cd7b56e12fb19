"""Webhooks and channels in the REST API."""

from troupe_client.documents import notifications as documents
from webapp.accounts.permissions import Person
from webapp.accounts.selectors import project_get
from webapp.api.routes import Routes
from webapp.notifications import services
from webapp.notifications.models import Destination
from webapp.notifications.services import (
    channel_document,
    delivery_document,
    destination_get,
    webhook_document,
)
from webapp.runs.lifecycle import EVENTS

WEBHOOK, CHANNEL = "webhook", "channel"
WEBHOOKS, CHANNELS = "projects/<slug:slug>/webhooks/", "projects/<slug:slug>/channels/"
SHOWN = 100
routes = Routes()


@routes.get(WEBHOOKS, name="webhooks", operation_id="v1_webhooks_list")
def webhooks(user: Person, slug: str) -> documents.Webhooks:
    """Return the webhooks of a project by name, without addresses and secrets; `events` lists all events. For owners."""
    rows = services.destinations_list(user, slug).filter(kind=WEBHOOK)
    return documents.Webhooks(results=[webhook_document(row) for row in rows], events=EVENTS)


@routes.post(WEBHOOKS, status=201, admin=True)
def webhook_create(user: Person, slug: str, body: documents.WebhookBody) -> documents.NewWebhook:
    """Create a webhook; `secret` is returned only in this response."""
    project = project_get(user, slug)
    webhook, secret = services.destination_make(user, project, WEBHOOK, **dict(body))
    return documents.NewWebhook(**dict(webhook_document(webhook)), secret=secret)


@routes.post(f"{WEBHOOKS}<int:pk>/ping/", name="webhook-ping", admin=True)
def webhook_ping(user: Person, slug: str, pk: int) -> documents.Delivery:
    """Send an event without content, and return its delivery."""
    return delivery_document(services.destination_ping(user, _webhook(user, slug, pk)))


@routes.post(f"{WEBHOOKS}<int:pk>/on/", name="webhook-on", admin=True)
def webhook_on(user: Person, slug: str, pk: int) -> documents.Webhook:
    """Switch a webhook on."""
    return webhook_document(services.destination_switch(user, _webhook(user, slug, pk), on=True))


@routes.post(f"{WEBHOOKS}<int:pk>/off/", name="webhook-off", admin=True)
def webhook_off(user: Person, slug: str, pk: int) -> documents.Webhook:
    """Switch a webhook off; events that occur meanwhile are not sent later."""
    return webhook_document(services.destination_switch(user, _webhook(user, slug, pk), on=False))


@routes.post(f"{WEBHOOKS}<int:pk>/remove/", name="webhook-remove", admin=True)
def webhook_remove(user: Person, slug: str, pk: int) -> documents.Webhook:
    """Delete a webhook with its deliveries."""
    document = webhook_document(webhook := _webhook(user, slug, pk))
    services.destination_remove(user, webhook)
    return document


@routes.get(f"{WEBHOOKS}<int:pk>/deliveries/", name="deliveries", operation_id="v1_webhook_deliveries_list")
def deliveries(user: Person, slug: str, pk: int) -> list[documents.Delivery]:
    """Return the last 100 deliveries of a webhook, newest first, with every attempt."""
    rows = services.deliveries_list(destination_get(user, slug, pk))[:SHOWN]
    return [delivery_document(row) for row in rows]


@routes.post(f"{WEBHOOKS}<int:pk>/deliveries/<int:delivery>/again/", name="delivery-again", admin=True)
def delivery_again(user: Person, slug: str, pk: int, delivery: int) -> documents.Delivery:
    """Send the event again under the same key, so that a receiver can detect the repetition."""
    row = services.delivery_get(destination_get(user, slug, pk), delivery)
    return delivery_document(services.delivery_again(user, row))


@routes.get(CHANNELS, name="channels")
def channels(user: Person, slug: str) -> list[documents.Channel]:
    """Return the channels of a project without their addresses."""
    return [channel_document(row) for row in project_get(user, slug).destinations.filter(kind=CHANNEL)]


@routes.post(CHANNELS, status=201, admin=True)
def channel_create(user: Person, slug: str, body: documents.ChannelBody) -> documents.Channel:
    """Create a channel; owners only."""
    channel, _ = services.destination_make(user, project_get(user, slug), CHANNEL, **dict(body))
    return channel_document(channel)


@routes.post(f"{CHANNELS}<int:pk>/try/", name="channel-try", admin=True)
def channel_try(user: Person, slug: str, pk: int) -> documents.TriedChannel:
    """Send a message now; owners only."""
    channel = destination_get(user, slug, pk, kind=CHANNEL)
    taken = services.destination_try(user, channel)
    return documents.TriedChannel(**dict(channel_document(channel)), taken=taken)


@routes.post(f"{CHANNELS}<int:pk>/remove/", name="channel-remove", admin=True)
def channel_remove(user: Person, slug: str, pk: int) -> documents.Channel:
    """Delete a channel; owners only."""
    channel = destination_get(user, slug, pk, kind=CHANNEL)
    document = channel_document(channel)
    services.destination_remove(user, channel)
    return document


def _webhook(user: Person, slug: str, pk: int) -> Destination:
    return destination_get(user, slug, pk, kind=WEBHOOK)
