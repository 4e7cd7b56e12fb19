"""Queries of destinations, limited to owners of the user's projects."""

from typing import Any

from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet
from django.http import Http404

from webapp.accounts.permissions import Person, is_owner
from webapp.accounts.selectors import project_get
from webapp.common.outgoing import AddressRefused
from webapp.common.sealing import Unreadable
from webapp.notifications.kinds.registry import KINDS
from webapp.notifications.models import Delivery, Destination


def destinations_list(user: Person, slug: str) -> QuerySet[Destination]:
    """Return the destinations by name. Raises Http404; PermissionDenied for users who are not owners."""
    project = project_get(user, slug)
    if not is_owner(user, project):
        raise PermissionDenied("destinations are for the owners of a project")
    return project.destinations.select_related("project", "created_by")


def destination_get(user: Person, slug: str, pk: int, **fields: str) -> Destination:
    """Raises Http404, PermissionDenied."""
    destination = destinations_list(user, slug).filter(pk=pk, **fields).first()
    if destination is None:
        raise Http404(f"the project {slug} has no {fields.get('kind', 'destination')} {pk}")
    return destination


def deliveries_list(destination: Destination) -> QuerySet[Delivery]:
    """Newest first."""
    return Delivery.objects.filter(destination=destination).select_related("destination__project")


def delivery_get(destination: Destination, pk: int) -> Delivery:
    """Raises Http404."""
    delivery = deliveries_list(destination).filter(pk=pk).first()
    if delivery is None:
        raise Http404("no such delivery")
    return delivery


def destination_status(destination: Destination) -> str:
    """Return why nothing can be sent to it, or the result of the last attempt; empty before the first."""
    try:
        KINDS[destination.kind].check(destination.address())
    except (AddressRefused, Unreadable) as error:
        remedy = f"Remove the {destination.kind} and add it again"
        return f"no messages are sent here: {error}. {remedy}"[:600]
    tried = destination.deliveries.exclude(tries=[]).first()
    return str(tried.last["said"] or "the last message was sent") if tried else ""


def webhook_document(webhook: Destination) -> dict[str, Any]:
    """Return a webhook as JSON, without address and secret."""
    last = webhook.deliveries.first()
    return {
        "id": webhook.pk,
        "name": webhook.name,
        "host": webhook.label,
        "events": webhook.events,
        "enabled": webhook.enabled,
        "created_at": webhook.created_at.isoformat(),
        "last": last and last.state,
    }


def channel_document(channel: Destination) -> dict[str, Any]:
    """Return a channel as JSON, without its address."""
    return {
        "id": channel.pk,
        "name": channel.name,
        "kind": channel.label,
        "said": destination_status(channel),
    }


def delivery_document(delivery: Delivery) -> dict[str, Any]:
    """Return the delivery as JSON: its payload and the result of each attempt."""
    return {
        "id": delivery.pk,
        "key": str(delivery.key),
        "event": delivery.event,
        "state": delivery.state,
        "time": delivery.created_at.isoformat(),
        "next_at": delivery.next_at and delivery.next_at.isoformat(),
        "tries": delivery.tries,
        "payload": delivery.payload,
    }
