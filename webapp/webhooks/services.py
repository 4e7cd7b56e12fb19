"""Creation and removal of webhooks; delivery of events."""

import logging
from collections.abc import Iterable
from datetime import timedelta
from functools import partial
from typing import Any

from django.core.exceptions import PermissionDenied
from django.db import transaction
from django.utils import timezone

from training_core.errors import ConfigError
from webapp.accounts.audit import audit_note
from webapp.accounts.models import Project, User
from webapp.accounts.permissions import Person, is_owner
from webapp.accounts.secrets import new_secret
from webapp.common.outgoing import AddressRefused, host_of
from webapp.common.sealing import seal
from webapp.common.task_queue import enqueue
from webapp.runs.models import Run
from webapp.webhooks.events import EVENTS, PING, run_facts
from webapp.webhooks.models import Delivery, Webhook
from webapp.webhooks.sending import ADDRESS, SECRET, delivery_try

log = logging.getLogger(__name__)
PAUSES = (10, 60, 300, 1800, 7200, 21600)
"""Seconds between a failed attempt and the next: seven attempts within nine hours."""
LEASE = timedelta(seconds=60)
"""Duration for which an attempt is leased to the task that started it."""
KEPT = timedelta(days=30)
MOST = 20
"""Maximum number of webhooks of a project."""


@transaction.atomic
def webhook_make(
    user: Person, project: Project, name: str, address: str, events: Iterable[str] = ()
) -> tuple[Webhook, str]:
    """Create a webhook. Returns it with its signing secret, which is shown once. No events: all events.

    Raises PermissionDenied, ConfigError.
    """
    _check_owner(user, project)
    name, address, wanted = name.strip(), address.strip(), sorted(set(events) or EVENTS)
    if not name or len(name) > 80 or "\0" in name:
        raise ConfigError({"name": "give 1 to 80 characters"})
    if unknown := set(wanted) - set(EVENTS):
        raise ConfigError({"events": f"{', '.join(unknown)[:100]}: use {', '.join(EVENTS)}"})
    if project.webhooks.filter(name=name).exists():
        raise ConfigError({"name": f"a webhook {name} already exists"})
    if project.webhooks.count() >= MOST:
        raise ConfigError({"name": f"a project has at most {MOST} webhooks"})
    try:
        host = host_of(address)
    except AddressRefused as error:
        raise ConfigError({"address": str(error)}) from error
    secret = new_secret()
    hook = Webhook.objects.create(
        project=project,
        name=name,
        host=host,
        sealed_address=seal(address, ADDRESS),
        sealed_secret=seal(secret, SECRET),
        events=wanted,
        created_by=user if isinstance(user, User) else None,
    )
    audit_note(user, project, "webhook.make", name, host=host, events=wanted)
    return hook, secret


@transaction.atomic
def webhook_remove(user: Person, hook: Webhook) -> None:
    """Delete the webhook and its deliveries. Raises PermissionDenied."""
    _check_owner(user, hook.project)
    audit_note(user, hook.project, "webhook.remove", hook.name, host=hook.host)
    hook.delete()


@transaction.atomic
def webhook_switch(user: Person, hook: Webhook, on: bool) -> Webhook:
    """Enable or disable sending; events are not sent later if they occur while it is disabled. Raises PermissionDenied."""
    _check_owner(user, hook.project)
    if hook.enabled != on:
        hook.enabled = on
        hook.save(update_fields=["enabled"])
        audit_note(user, hook.project, "webhook.on" if on else "webhook.off", hook.name)
    return hook


@transaction.atomic
def webhook_ping(user: Person, hook: Webhook) -> Delivery:
    """Send an event without content, to test the address. Raises PermissionDenied."""
    _check_owner(user, hook.project)
    audit_note(user, hook.project, "webhook.ping", hook.name)
    return _write(hook, PING, {})


@transaction.atomic
def delivery_again(user: Person, delivery: Delivery) -> Delivery:
    """Send an event again, under the same key. Raises PermissionDenied."""
    _check_owner(user, delivery.webhook.project)
    audit_note(
        user, delivery.webhook.project, "webhook.redeliver", delivery.webhook.name, event=delivery.event
    )
    delivery.state, delivery.next_at, delivery.left = Delivery.State.WAITING, timezone.now(), 1
    delivery.save(update_fields=["state", "next_at", "left"])
    transaction.on_commit(partial(_deliver_soon, delivery.pk))
    return delivery


def event_send(event: str, run: Run, **facts: Any) -> int:
    """Send an event of a run to all subscribed webhooks after commit; returns their number."""
    hooks = Webhook.objects.filter(project=run.project_id, enabled=True, events__contains=[event])
    sent = [_write(hook, event, {"run": run_facts(run)} | facts) for hook in hooks.select_related("project")]
    return len(sent)


def delivery_now(pk: int) -> bool:
    """Attempt a delivery that is due; returns whether it succeeded. Two concurrent tasks make one attempt."""
    now = timezone.now()
    mine = Delivery.objects.filter(pk=pk, state=Delivery.State.WAITING, next_at__lte=now)
    if not mine.update(next_at=now + LEASE):
        return False
    delivery = Delivery.objects.select_related("webhook").get(pk=pk)
    attempt = delivery_try(delivery)
    delivery.tries = [*delivery.tries, attempt]
    delivery.left -= 1
    if attempt["code"] is not None and 200 <= attempt["code"] < 300:
        delivery.state, delivery.next_at = Delivery.State.DELIVERED, None
    elif delivery.left <= 0:
        delivery.state, delivery.next_at = Delivery.State.GIVEN_UP, None
    else:
        pause = PAUSES[min(len(PAUSES) - delivery.left, len(PAUSES) - 1)]
        delivery.next_at = timezone.now() + timedelta(seconds=pause)
    delivery.save(update_fields=["tries", "left", "state", "next_at"])
    return delivery.state == Delivery.State.DELIVERED


def deliveries_forget() -> int:
    """Delete old deliveries; returns their number."""
    return Delivery.objects.filter(created_at__lt=timezone.now() - KEPT).delete()[0]


def _write(hook: Webhook, event: str, facts: dict[str, Any]) -> Delivery:
    delivery = Delivery(webhook=hook, event=event, next_at=timezone.now(), left=len(PAUSES) + 1)
    delivery.payload = {
        "id": str(delivery.key),
        "event": event,
        "time": timezone.now().isoformat(),
        "project": hook.project.slug,
        **facts,
    }
    delivery.save()
    transaction.on_commit(partial(_deliver_soon, delivery.pk))
    return delivery


def _deliver_soon(pk: int) -> None:
    """Queue the delivery. Without a broker, the next periodic task delivers it."""
    enqueue("webhooks.deliver", pk)


def _check_owner(user: Person, project: Project) -> None:
    if not is_owner(user, project):
        raise PermissionDenied("only owners of the project may change its webhooks")
