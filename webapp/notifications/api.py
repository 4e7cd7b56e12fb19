"""Webhooks and channels in the REST API."""

from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from webapp.accounts.selectors import project_get
from webapp.api.schema import JSON
from webapp.notifications import services
from webapp.notifications.selectors import (
    channel_document,
    deliveries_list,
    delivery_document,
    delivery_get,
    destination_get,
    destinations_list,
    webhook_document,
)
from webapp.runs.lifecycle import EVENTS

WEBHOOK, CHANNEL = "webhook", "channel"
SHOWN = 100


class WebhookSerializer(serializers.Serializer[Any]):
    """The fields of a new webhook."""

    name = serializers.CharField(max_length=80)
    address = serializers.CharField(max_length=2000, help_text="https://host/path; it is never shown again")
    events = serializers.ListField(
        child=serializers.ChoiceField(list(EVENTS)), default=list, help_text="none: all events"
    )


class ChannelSerializer(serializers.Serializer[Any]):
    """The fields of a new channel."""

    name = serializers.CharField(max_length=80)
    address = serializers.CharField(max_length=2000, help_text="An Apprise URL; it is not shown later.")


class Webhooks(APIView):
    """The webhooks of a project; for its owners."""

    @extend_schema(operation_id="v1_webhooks_list", responses=JSON)
    def get(self, request: Request, slug: str) -> Response:
        """Return the webhooks by name, without addresses and secrets; `events` lists all events."""
        webhooks = destinations_list(request.user, slug).filter(kind=WEBHOOK)
        return Response({"results": [webhook_document(webhook) for webhook in webhooks], "events": EVENTS})

    @extend_schema(request=WebhookSerializer, responses={201: JSON, 400: JSON})
    def post(self, request: Request, slug: str) -> Response:
        """Create a webhook; `secret` is returned only in this response."""
        body = WebhookSerializer(data=request.data)
        body.is_valid(raise_exception=True)
        project = project_get(request.user, slug)
        webhook, secret = services.destination_make(request.user, project, WEBHOOK, **body.validated_data)
        return Response(webhook_document(webhook) | {"secret": secret}, status=201)


class WebhookAct(APIView):
    """Actions on a webhook: ping, on, off or remove."""

    act = "ping"

    @extend_schema(request=None, responses=JSON)
    def post(self, request: Request, slug: str, pk: int) -> Response:
        """Return the delivery for ping; otherwise the webhook."""
        webhook = destination_get(request.user, slug, pk, kind=WEBHOOK)
        if self.act == "ping":
            return Response(delivery_document(services.destination_ping(request.user, webhook)))
        document = webhook_document(webhook)
        if self.act == "remove":
            services.destination_remove(request.user, webhook)
            return Response(document)
        return Response(
            webhook_document(services.destination_switch(request.user, webhook, self.act == "on"))
        )


class Deliveries(APIView):
    """Deliveries of a webhook."""

    @extend_schema(operation_id="v1_webhook_deliveries_list", responses=JSON)
    def get(self, request: Request, slug: str, pk: int) -> Response:
        """Return the last 100, newest first, with every attempt."""
        rows = deliveries_list(destination_get(request.user, slug, pk))[:SHOWN]
        return Response({"results": [delivery_document(row) for row in rows]})


class DeliveryAgain(APIView):
    """Redelivery of an event."""

    @extend_schema(request=None, responses=JSON)
    def post(self, request: Request, slug: str, pk: int, delivery: int) -> Response:
        """Send the event again under the same key, so that a receiver can detect the repetition."""
        row = delivery_get(destination_get(request.user, slug, pk), delivery)
        return Response(delivery_document(services.delivery_again(request.user, row)))


class Channels(APIView):
    """The notification channels of a project."""

    @extend_schema(responses=JSON)
    def get(self, request: Request, slug: str) -> Response:
        """Return the channels without their addresses."""
        channels = project_get(request.user, slug).destinations.filter(kind=CHANNEL)
        return Response({"results": [channel_document(channel) for channel in channels]})

    @extend_schema(request=ChannelSerializer, responses={201: JSON, 400: JSON})
    def post(self, request: Request, slug: str) -> Response:
        """Create a channel; owners only."""
        body = ChannelSerializer(data=request.data)
        body.is_valid(raise_exception=True)
        project = project_get(request.user, slug)
        channel, _ = services.destination_make(request.user, project, CHANNEL, **body.validated_data)
        return Response(channel_document(channel), status=201)


class ChannelAct(APIView):
    """Actions on a channel: try or remove."""

    act = "try"

    @extend_schema(request=None, responses=JSON)
    def post(self, request: Request, slug: str, pk: int) -> Response:
        """try: send a message now. remove: delete the channel. Owners only."""
        channel = destination_get(request.user, slug, pk, kind=CHANNEL)
        if self.act == "remove":
            document = channel_document(channel)
            services.destination_remove(request.user, channel)
            return Response(document)
        accepted = services.destination_try(request.user, channel)
        return Response(channel_document(channel) | {"taken": accepted})
