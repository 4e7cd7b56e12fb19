"""Destinations of events: what owners see and change; pings and redeliveries."""

from collections.abc import Iterable
from typing import Any

from django.core.exceptions import PermissionDenied
from django.db import transaction
from django.db.models import QuerySet
from django.http import Http404
from django.utils import timezone

from training_core.errors import ConfigError
from troupe_client.documents import notifications as documents
from webapp.accounts.audit import audit_note
from webapp.accounts.models import Project, User
from webapp.accounts.permissions import Person, is_owner
from webapp.accounts.selectors import project_get
from webapp.accounts.tokens import new_secret
from webapp.common.outgoing import AddressRefused
from webapp.common.sealing import Unreadable, seal
from webapp.notifications.delivery import PING, deliver_soon, delivery_now, delivery_write
from webapp.notifications.kinds import KINDS
from webapp.notifications.models import Delivery, Destination

MOST = 36
"""Maximum number of destinations of a project."""


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


def webhook_document(webhook: Destination) -> documents.Webhook:
    """Return the document of a webhook."""
    last = webhook.deliveries.first()
    return documents.Webhook.of_row(webhook, host=webhook.label, last=last and last.state)


def channel_document(channel: Destination) -> documents.Channel:
    """Return the document of a channel."""
    return documents.Channel.of_row(channel, kind=channel.label, said=destination_status(channel))


def delivery_document(delivery: Delivery) -> documents.Delivery:
    """Return the document of a delivery."""
    return documents.Delivery.of_row(delivery, time=delivery.created_at)


@transaction.atomic
def destination_make(
    user: Person, project: Project, kind: str, name: str, address: str, events: Iterable[str] = ()
) -> tuple[Destination, str]:
    """Create a destination. Returns it with its signing secret, which is shown once. No events: those of its kind.

    Raises PermissionDenied, ConfigError.
    """
    if not is_owner(user, project):
        raise PermissionDenied("only owners of the project may change its destinations")
    name, address = name.strip(), address.strip()
    selected = sorted(set(events) or KINDS[kind].default_events)
    if not name or len(name) > 80 or "\0" in name:
        raise ConfigError({"name": "give 1 to 80 characters"})
    if project.destinations.filter(kind=kind, name=name).exists():
        raise ConfigError({"name": f"a {kind} {name} already exists; remove it first"})
    if project.destinations.count() >= MOST:
        raise ConfigError({"name": f"a project has at most {MOST} destinations; remove one first"})
    try:
        label = KINDS[kind].label(address)
    except AddressRefused as error:
        raise ConfigError({"address": str(error)}) from error
    destination = Destination(project=project, kind=kind, name=name, label=label, events=selected)
    destination.created_by = user if isinstance(user, User) else None
    destination.sealed_address = seal(address, destination.purpose("address"))
    secret = new_secret() if KINDS[kind].signed else ""
    destination.sealed_secret = secret and seal(secret, destination.purpose("secret"))
    destination.save()
    _note(user, destination, "make", label=label, events=selected)
    return destination, secret


@transaction.atomic
def destination_remove(user: Person, destination: Destination) -> None:
    """Delete the destination and its deliveries. Raises PermissionDenied."""
    _note(user, destination, "remove", label=destination.label)
    destination.delete()


@transaction.atomic
def destination_switch(user: Person, destination: Destination, on: bool) -> Destination:
    """Enable or disable sending; events that occur while it is disabled are not sent later. Raises PermissionDenied."""
    if destination.enabled != on:
        _note(user, destination, "on" if on else "off")
        destination.enabled = on
        destination.save(update_fields=["enabled"])
    return destination


@transaction.atomic
def destination_ping(user: Person, destination: Destination) -> Delivery:
    """Send an event without content, to test the address. Raises PermissionDenied."""
    _note(user, destination, "ping")
    return deliver_soon(delivery_write(destination, PING, {}))


@transaction.atomic
def destination_try(user: Person, destination: Destination) -> bool:
    """Send one ping now, without repetition; returns whether it was accepted. Raises PermissionDenied."""
    _note(user, destination, "try")
    return delivery_now(delivery_write(destination, PING, {}, left=1).pk)


@transaction.atomic
def delivery_again(user: Person, delivery: Delivery) -> Delivery:
    """Send an event again, under the same key. Raises PermissionDenied."""
    _note(user, delivery.destination, "redeliver", event=delivery.event)
    delivery.state, delivery.next_at, delivery.left = Delivery.State.WAITING, timezone.now(), 1
    delivery.save(update_fields=["state", "next_at", "left"])
    return deliver_soon(delivery)


def _note(user: Person, destination: Destination, act: str, **details: Any) -> None:
    """Audit an act of an owner, such as webhook.ping. Raises PermissionDenied for others."""
    if not is_owner(user, destination.project):
        raise PermissionDenied("only owners of the project may change its destinations")
    audit_note(user, destination.project, f"{destination.kind}.{act}", destination.name, **details)
