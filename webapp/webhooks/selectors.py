"""Queries of webhooks, limited to owners of the user's projects."""

from typing import Any

from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet
from django.http import Http404

from webapp.accounts.models import Project
from webapp.accounts.permissions import Person, is_owner
from webapp.accounts.selectors import project_get
from webapp.webhooks.models import Delivery, Webhook


def webhooks_list(user: Person, slug: str) -> QuerySet[Webhook]:
    """Return the webhooks by name. Raises Http404; PermissionDenied for users who are not owners."""
    return Webhook.objects.filter(project=_owned(user, slug)).select_related("project", "created_by")


def webhook_get(user: Person, slug: str, pk: int) -> Webhook:
    """Raises Http404, PermissionDenied."""
    hook = webhooks_list(user, slug).filter(pk=pk).first()
    if hook is None:
        raise Http404("no such webhook")
    return hook


def deliveries_list(hook: Webhook) -> QuerySet[Delivery]:
    """Newest first."""
    return Delivery.objects.filter(webhook=hook).select_related("webhook__project")


def delivery_get(user: Person, slug: str, pk: int, delivery: int) -> Delivery:
    """Raises Http404, PermissionDenied."""
    row = deliveries_list(webhook_get(user, slug, pk)).filter(pk=delivery).first()
    if row is None:
        raise Http404("no such delivery")
    return row


def webhook_document(hook: Webhook) -> dict[str, Any]:
    """Return the webhook as JSON, without address and secret."""
    last = hook.deliveries.first()
    return {
        "id": hook.pk,
        "name": hook.name,
        "host": hook.host,
        "events": hook.events,
        "enabled": hook.enabled,
        "created_at": hook.created_at.isoformat(),
        "last": last and last.state,
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


def _owned(user: Person, slug: str) -> Project:
    project = project_get(user, slug)
    if not is_owner(user, project):
        raise PermissionDenied("webhooks are for the owners of a project")
    return project
