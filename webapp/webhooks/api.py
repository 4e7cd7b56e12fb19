"""Webhooks in the REST API."""

from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from webapp.accounts.selectors import project_get
from webapp.api.schema import JSON
from webapp.webhooks import services
from webapp.webhooks.events import EVENTS
from webapp.webhooks.selectors import (
    deliveries_list,
    delivery_document,
    delivery_get,
    webhook_document,
    webhook_get,
    webhooks_list,
)

SHOWN = 100


class WebhookSerializer(serializers.Serializer[Any]):
    """The fields of a new webhook."""

    name = serializers.CharField(max_length=80)
    address = serializers.CharField(max_length=2000, help_text="https://host/path; it is never shown again")
    events = serializers.ListField(
        child=serializers.ChoiceField(list(EVENTS)), default=list, help_text="none: all events"
    )


class Webhooks(APIView):
    """The webhooks of a project; for its owners."""

    @extend_schema(operation_id="v1_webhooks_list", responses=JSON)
    def get(self, request: Request, slug: str) -> Response:
        """Return the webhooks by name, without addresses and secrets; `events` lists all events."""
        rows = [webhook_document(each) for each in webhooks_list(request.user, slug)]
        return Response({"results": rows, "events": EVENTS})

    @extend_schema(request=WebhookSerializer, responses={201: JSON, 400: JSON})
    def post(self, request: Request, slug: str) -> Response:
        """Create a webhook; `secret` is returned only in this response."""
        wanted = WebhookSerializer(data=request.data)
        wanted.is_valid(raise_exception=True)
        project = project_get(request.user, slug)
        hook, secret = services.webhook_make(request.user, project, **wanted.validated_data)
        return Response(webhook_document(hook) | {"secret": secret}, status=201)


class WebhookAct(APIView):
    """Actions on a webhook: ping, on, off or remove."""

    act = "ping"

    @extend_schema(request=None, responses=JSON)
    def post(self, request: Request, slug: str, pk: int) -> Response:
        """Return the delivery for ping; otherwise the webhook."""
        hook = webhook_get(request.user, slug, pk)
        if self.act == "ping":
            return Response(delivery_document(services.webhook_ping(request.user, hook)))
        document = webhook_document(hook)
        if self.act == "remove":
            services.webhook_remove(request.user, hook)
            return Response(document)
        return Response(webhook_document(services.webhook_switch(request.user, hook, self.act == "on")))


class Deliveries(APIView):
    """Deliveries of a webhook."""

    @extend_schema(operation_id="v1_webhook_deliveries_list", responses=JSON)
    def get(self, request: Request, slug: str, pk: int) -> Response:
        """Return the last 100, newest first, with every attempt."""
        rows = deliveries_list(webhook_get(request.user, slug, pk))[:SHOWN]
        return Response({"results": [delivery_document(each) for each in rows]})


class DeliveryAgain(APIView):
    """Redelivery of an event."""

    @extend_schema(request=None, responses=JSON)
    def post(self, request: Request, slug: str, pk: int, delivery: int) -> Response:
        """Send the event again under the same key, so that a receiver can detect the repetition."""
        found = delivery_get(request.user, slug, pk, delivery)
        return Response(delivery_document(services.delivery_again(request.user, found)))
